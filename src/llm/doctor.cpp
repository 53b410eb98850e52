#include "llm/doctor.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "llm/bedrock.h"
#include "llm/http_provider.h"
#include "llm/json_reading.h"
#include "llm/model_options.h"
#include "llm/server_error.h"
#include "llm/transport/curl_multi.h"

namespace accelopt::llm {
namespace {

/// The address of an endpoint's list of models, beside that of its completions.
std::string models_url(const ModelOptions& model) {
    std::string base = model.url;
    for (const char* path : {"/chat/completions", "/messages"}) {
        while (!base.empty() && base.back() == '/') base.pop_back();
        const std::string end = path;
        if (base.size() > end.size() &&
            base.compare(base.size() - end.size(), end.size(), end) == 0) {
            base.resize(base.size() - end.size());
        }
    }
    return join_url(base, "/models");
}

HttpResponse get(const ModelOptions& model, const std::string& url, double timeout_s) {
    HttpRequest request;
    request.get = true;
    request.url = url;
    request.timeout_s = timeout_s;
    request.connect_timeout_s = timeout_s;
    request.headers = {"Accept: application/json"};
    if (model.provider == "anthropic") {
        request.headers.push_back("anthropic-version: 2023-06-01");
        request.headers.push_back("x-api-key: " + model.api_key.reveal());
    } else if (model.provider == "openai" && !model.api_key.empty()) {
        request.headers.push_back("Authorization: Bearer " + model.api_key.reveal());
    }
    CurlMulti transport;
    transport.start(std::move(request));
    std::vector<HttpResponse> done;
    transport.poll(timeout_s + 1, done);
    if (done.empty()) {
        done.emplace_back();
        done.back().transport = HttpResponse::Transport::kTimeout;
        done.back().error = "no answer";
    }
    return done.front();
}

/// Names in a list of models; nullopt when the answer is no such list.
std::optional<std::vector<std::string>> listed_models(const std::string& body) {
    const auto document = parse_object(body);
    const Json* data = document ? member(*document, "data") : nullptr;
    if (!data || !data->is_array()) return std::nullopt;
    std::vector<std::string> names;
    for (const auto& entry : *data) names.push_back(text_member(entry, "id"));
    return names;
}

Finding examine_endpoint(const ModelOptions& model, double timeout_s) {
    Finding finding{"model " + model.key + ": endpoint", false, "", ""};
    const bool bedrock = model.provider == "bedrock";
    const HttpResponse response =
        get(model, bedrock ? bedrock_address(model) + "/" : models_url(model), timeout_s);
    TryResult result;
    result.http_status = response.status;
    if (response.transport != HttpResponse::Transport::kComplete) {
        result.error = response.error;
        finding.remedy = "check url, network, proxy variables and CURL_CA_BUNDLE";
    } else if (bedrock) {
        finding.good = true;  // whatever it says to a request that is not signed
        result.error = "reachable; its models are not listed";
    } else if (response.status == 401 || response.status == 403) {
        read_error_body(response.status, response.body, result);
        finding.remedy = "the key in the variable of key_env is not accepted";
    } else if (response.status < 200 || response.status > 299) {
        // It answers; that it keeps no list of models is no fault.
        finding.good = response.status == 404 || response.status == 405;
        read_error_body(response.status, response.body, result);
        finding.remedy = "the endpoint answers, but not well";
    } else if (const auto names = listed_models(response.body)) {
        finding.good = std::find(names->begin(), names->end(), model.name) != names->end();
        if (finding.good) {
            finding.value = "reachable, lists " + model.name;
            return finding;
        }
        const std::string near = nearest_word(model.name, *names);
        result.error = "reachable, but does not list " + model.name;
        finding.remedy =
            near.empty() ? "name the model as the endpoint does" : "is it " + near + "?";
    } else {
        finding.good = true;
        result.error = "reachable, keeps no list of models";
    }
    scrub(model, result);
    finding.value = one_line(result.error);
    return finding;
}

}  // namespace

std::vector<Finding> examine_models(const std::map<std::string, config::ModelConfig>& models,
                                    const PriceTable& prices, bool dollar_budget,
                                    double timeout_s) {
    std::vector<Finding> findings;
    for (const auto& [key, config] : models) {
        const std::string what = "model " + key;
        ModelOptions model;
        try {
            model = make_model_options(config);
        } catch (const Error& error) {
            findings.push_back({what, false, error.what(), ""});
            continue;
        }
        findings.push_back(
            {what, true, config.provider + (model.api_key.empty() ? ", no key" : ", key present"),
             ""});
        if (config.provider == "replay") {
            const bool there = std::filesystem::is_directory(model.recording);
            findings.push_back({what + ": recording", there, model.recording,
                                "the recorded run's directory is not there"});
            continue;
        }
        const Price* price = prices.find(price_name(model, prices));
        const bool needed = dollar_budget || config.budget_usd.has_value();
        findings.push_back({what + ": price", price || !needed,
                            price ? price->source + ", " + price->date : "n/a: costs are unknown",
                            "add the model to the price file, or take the budget away"});
        if (config.provider == "openai" || config.provider == "anthropic" ||
            config.provider == "bedrock") {
            findings.push_back(examine_endpoint(model, timeout_s));
        }
    }
    return findings;
}

}  // namespace accelopt::llm
