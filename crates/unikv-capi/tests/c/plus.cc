// The header in C++, with handles that end themselves.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "leveldb/c.h"
#include "unikv.h"

namespace {

struct Ends {
    void operator()(unikv_t* db) const { unikv_close(db); }
    void operator()(unikv_iterator_t* iter) const { unikv_iter_destroy(iter); }
    void operator()(unikv_options_t* options) const { unikv_options_destroy(options); }
    void operator()(char* bytes) const { unikv_free(bytes); }
};

template <typename T>
using Owned = std::unique_ptr<T, Ends>;

void fine(char* message) {
    if (message == nullptr) return;
    std::cerr << message << std::endl;
    std::exit(1);
}

void check(bool condition, const char* what) {
    if (condition) return;
    std::cerr << "not so: " << what << std::endl;
    std::exit(1);
}

}  // namespace

int main(int, char** argv) {
    char* err = nullptr;
    Owned<unikv_options_t> options(unikv_options_create());
    unikv_options_set_create_if_missing(options.get(), 1);
    Owned<unikv_t> db(unikv_open(options.get(), argv[1], &err));
    fine(err);
    const std::string binary("a\0b", 3);
    for (int i = 0; i < 100; i++) {
        const std::string key = binary + std::to_string(i);
        unikv_put(db.get(), nullptr, key.data(), key.size(), key.data(), key.size(), &err);
        fine(err);
    }
    size_t len = 0;
    const std::string key = binary + "7";
    Owned<char> value(unikv_get(db.get(), nullptr, key.data(), key.size(), &len, &err));
    fine(err);
    check(value && std::string(value.get(), len) == key, "the value is there");

    Owned<unikv_iterator_t> iter(unikv_create_iterator(db.get(), nullptr));
    int entries = 0;
    std::string last;
    for (unikv_iter_seek_to_first(iter.get()); unikv_iter_valid(iter.get());
         unikv_iter_next(iter.get())) {
        size_t length = 0;
        const char* bytes = unikv_iter_key(iter.get(), &length);
        const std::string now(bytes, length);
        check(last < now, "keys ascend");
        last = now;
        entries++;
    }
    check(entries == 100, "all entries are there");
    check(leveldb_major_version() == unikv_major_version(), "both names are there");
    std::cout << "passed" << std::endl;
    return 0;
}
