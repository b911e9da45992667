// Operators of our own, and what goes wrong in such code.
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" int gather(int step) {
    std::thread worker([step] { throw std::runtime_error("gather: bucket " + std::to_string(step) + " is not resident"); });
    worker.join();
    return 0;
}
extern "C" int scatter(int step) {
    __builtin_trap();
}
extern "C" int bucket_of(int step) {
    volatile int buckets = 0;
    return step / buckets;
}
extern "C" int resize(int step) {
    std::vector<int> *none = nullptr;
    return none->at(step);
}
