#include "nki/heap.h"

#include "nki/failure.h"

namespace accelopt::nki::interp {

Container::~Container() {
    if (heap != nullptr) heap->unlink(this);
}

void Heap::charge(std::int64_t bytes) {
    if (bytes > limit_ - live_)
        exhausted("memory", "the kernel's Python objects need too much memory")
            .limit(limit_)
            .raise();
    live_ += bytes;
}

void Heap::destroy(Object* object) {
    dead_.push_back(object);
    if (draining_) return;
    draining_ = true;
    while (!dead_.empty()) {
        Object* next = dead_.back();
        dead_.pop_back();
        live_ -= next->bytes;
        delete next;
    }
    draining_ = false;
}

void Heap::link(Container* container) {
    container->next = containers_;
    if (containers_ != nullptr) containers_->previous = container;
    containers_ = container;
}

void Heap::unlink(Container* container) {
    if (container->previous != nullptr) container->previous->next = container->next;
    if (container->next != nullptr) container->next->previous = container->previous;
    if (containers_ == container) containers_ = container->next;
    container->previous = nullptr;
    container->next = nullptr;
}

Heap::~Heap() {
    // What is still linked is held by a cycle: emptying one container after the other frees all.
    while (containers_ != nullptr) {
        Ref<Container> container(containers_);
        unlink(container.get());
        container->clear();
    }
}

}  // namespace accelopt::nki::interp
