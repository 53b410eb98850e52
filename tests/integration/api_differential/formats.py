"""NKI's number formats, read from their definitions (sign, exponent and mantissa bits).

Logical values are float64 arrays throughout: every value of every format is exact in them."""
import numpy as np


class Format:
    """One dtype: `cast` is what an engine does on write, from exact or float32 values."""

    def __init__(self, name, kind, size, text):
        self.name, self.kind, self.size, self.text = name, kind, size, text

    def __repr__(self):
        return self.name

    @property
    def is_float(self):
        return self.kind == "float"

    @property
    def is_integer(self):
        return self.kind == "integer"


class Float(Format):
    """IEEE-like: subnormals, infinities, round to nearest even. `padding`: low bits not used."""

    def __init__(self, name, exponent, mantissa, padding=0):
        bits = 1 + exponent + mantissa + padding
        super().__init__(name, "float", bits // 8, f"nl.{name}")
        self.mantissa, self.padding = mantissa, padding
        self.exponent = exponent
        self.bias = 2 ** (exponent - 1) - 1
        self.least = 1 - self.bias
        self.largest = (2.0 - 2.0 ** -mantissa) * 2.0 ** self.bias
        self.unit = 2.0 ** -(mantissa + 1)

    def cast(self, values):
        values = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            _, exponent = np.frexp(values)
            quantum = np.maximum(exponent - 1, self.least) - self.mantissa
            rounded = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
            return np.where(np.abs(rounded) > self.largest, np.copysign(np.inf, values), rounded)

    def encode(self, values):
        values = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
            _, exponent = np.frexp(magnitude)
            exponent = np.maximum(exponent - 1, self.least)
            significand = np.ldexp(magnitude, self.mantissa - exponent).astype(np.int64)
            normal = significand >= 1 << self.mantissa
            field = np.where(normal, exponent + self.bias, 0)
            bits = (field << self.mantissa) | (significand & ((1 << self.mantissa) - 1))
        top = ((1 << self.exponent) - 1) << self.mantissa
        bits = np.where(np.isinf(values), top, bits)
        bits = np.where(np.isnan(values), top | (1 << (self.mantissa - 1)), bits)
        bits |= np.signbit(values).astype(np.int64) << (self.exponent + self.mantissa)
        return (bits << self.padding).astype(f"<u{self.size}")

    def decode(self, data):
        bits = np.frombuffer(data, f"<u{self.size}").astype(np.int64)
        if np.any(bits & ((1 << self.padding) - 1)):
            raise ValueError(f"a {self.name} with low bits set")
        bits >>= self.padding
        sign = np.where(bits >> (self.exponent + self.mantissa), -1.0, 1.0)
        field = (bits >> self.mantissa) & ((1 << self.exponent) - 1)
        fraction = bits & ((1 << self.mantissa) - 1)
        significand = np.where(field > 0, fraction | (1 << self.mantissa), fraction)
        values = np.ldexp(significand.astype(np.float64),
                          np.maximum(field - self.bias, self.least) - self.mantissa)
        special = field == (1 << self.exponent) - 1
        values = np.where(special, np.where(fraction > 0, np.nan, np.inf), values)
        return sign * values


class Integer(Format):
    """Casts from float round to nearest even and saturate: the documentation does not say, the
    project decided (src/trainium/README.md)."""

    def __init__(self, name, bits, signed):
        super().__init__(name, "integer", bits // 8, f"nl.{name}")
        self.bits, self.signed = bits, signed
        self.low = -(2.0 ** (bits - 1)) if signed else 0.0
        self.high = 2.0 ** (bits - (1 if signed else 0)) - 1
        self.code = f"<{'i' if signed else 'u'}{bits // 8}"

    def cast(self, values):
        return np.clip(np.rint(np.asarray(values, np.float64)), self.low, self.high) + 0.0

    def encode(self, values):
        return np.asarray(values, np.float64).astype(np.int64).astype(self.code)

    def decode(self, data):
        return np.frombuffer(data, self.code).astype(np.float64)


class Boolean(Format):
    """A byte, 0 or 1."""

    def __init__(self):
        super().__init__("bool", "bool", 1, "nl.bool_")
        self.low, self.high, self.signed, self.bits = 0.0, 1.0, False, 8

    def cast(self, values):
        return (np.asarray(values) != 0).astype(np.float64)

    def encode(self, values):
        return self.cast(values).astype(np.uint8)

    def decode(self, data):
        raw = np.frombuffer(data, np.uint8)
        if np.any(raw > 1):
            raise ValueError("a bool byte that is neither 0 nor 1")
        return raw.astype(np.float64)


F32 = Float("float32", 8, 23)
BF16 = Float("bfloat16", 8, 7)
F16 = Float("float16", 5, 10)
TF32 = Float("tfloat32", 8, 10, padding=13)
E4M3 = Float("float8_e4m3", 4, 3)
E5M2 = Float("float8_e5m2", 5, 2)
I8, I16, I32 = (Integer(f"int{n}", n, True) for n in (8, 16, 32))
U8, U16, U32 = (Integer(f"uint{n}", n, False) for n in (8, 16, 32))
BOOL = Boolean()

FLOATS = [F32, BF16, F16, TF32, E4M3, E5M2]
INTEGERS = [I8, I16, I32, U8, U16, U32]
ALL = FLOATS + INTEGERS + [BOOL]
BY_NAME = {f.name: f for f in ALL}


def f32(values):
    """What an engine reads: the element as float32."""
    return np.asarray(values, np.float64).astype(np.float32)


def promote(a, b):
    """The default output dtype of a and b (API common fields, "NKI Type Promotion")."""
    if a is b:
        return a
    if BOOL in (a, b):  # stored as uint8
        return promote(U8 if a is BOOL else a, U8 if b is BOOL else b)
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float:
        exponent, mantissa = max(a.exponent, b.exponent), max(a.mantissa, b.mantissa)
        for candidate in (E5M2, E4M3, F16, BF16, TF32, F32):
            if candidate.exponent < exponent or candidate.mantissa < mantissa:
                continue
            if {a, b} == {E4M3, E5M2}:
                return BF16
            if {a, b} == {F16, BF16}:
                return F32
            return candidate
    low, high = min(a.low, b.low), max(a.high, b.high)
    for candidate in (U8, I8, U16, I16, U32, I32):
        if candidate.low <= low and candidate.high >= high:
            return candidate
    return F32


def of_scalar(value):
    """The dtype of a weakly typed Python scalar."""
    if isinstance(value, bool):
        return U8
    return I32 if isinstance(value, int) else F32
