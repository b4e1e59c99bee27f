// A plug-in of Oclgrind that writes what the work-items of some work-groups of one launch do: each access to global, constant
// and local memory, each conditional branch, each barrier, and how often every instruction ran. Python reads it (trace.py).
//
// Environment: CLMEMBENCH_TRACE (prefix of the files), CLMEMBENCH_TRACE_KERNEL (its first launch is traced; empty: the first of
// all), CLMEMBENCH_TRACE_ACCESSES and CLMEMBENCH_TRACE_SECONDS (of CPU time, so that other programs do not change what is
// traced; no further work-group begins after so many; a work-group that goes on for four times as many ends the process with
// exit code 77; without barriers it is cut after 32 work-items, code 76).
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <numeric>

#include "common.h"  // with the headers of C++, which must not see the next line

#define private public  // of a launch the list of work-groups to come, which has no other way in
#include "KernelInvocation.h"
#undef private
#include "Context.h"
#include "Kernel.h"
#include "Memory.h"
#include "Plugin.h"
#include "Program.h"
#include "WorkGroup.h"
#include "WorkItem.h"

extern "C" {  // of LLVM's interface in C, which Oclgrind's library exports
void* LLVMInstructionGetDebugLoc(const void* instruction);
unsigned LLVMDILocationGetLine(void* location);
void* LLVMDILocationGetScope(void* location);
void* LLVMDILocationGetInlinedAt(void* location);
void* LLVMDIScopeGetFile(void* scope);
const char* LLVMDIFileGetFilename(void* file, unsigned* length);
}

using namespace oclgrind;

namespace {

const char* const SOURCE = "input.cl";  // Oclgrind's name of a program's text
const int PART = 76, ENDLESS = 77;  // exit codes: whole sub-groups of a work-group were traced; it does not end
const size_t SUB_GROUP = 32;        // work-items that end together where a work-group is cut
const uint64_t PATIENCE = 4;        // times the budget that one work-group may take
const size_t STRETCHES = 8;         // of neighbouring work-groups, spread over the launch
const size_t NEIGHBOURS = 4;        // work-groups of a stretch that follow each other
const uint64_t CLOCK_EVERY = 4096;  // instructions between two looks at the clock
enum Operation : uint8_t { LOAD, STORE, ATOMIC, BRANCH };

// One access, or one conditional branch, whose address is the number of the instruction that follows.
struct Event {
    uint64_t address;
    uint32_t group, item;        // the group's index in the launch; the work-item's in its group
    uint32_t nth;                // how often the work-item has executed this instruction
    uint32_t step;               // of the work-item's events since the last barrier
    uint32_t epoch;              // barriers that the group has passed
    uint16_t instruction, size;  // size in bytes
    uint8_t space, operation;
    uint8_t unused[6];
};
static_assert(sizeof(Event) == 40, "read by trace.py");

struct Seen {
    uint16_t number;
    bool branches;  // on a condition
    bool constant;  // reads constant memory, which the simulator keeps in global memory
    uint32_t line;
    uint64_t executed = 0, loads = 0, stores = 0, bytes = 0;  // the last three are of private memory
    std::string text;
    std::vector<uint32_t> by_item;
};

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

class Trace : public Plugin {
  public:
    explicit Trace(const Context* context)
        : Plugin(context),
          prefix(environment("CLMEMBENCH_TRACE")),
          kernel(environment("CLMEMBENCH_TRACE_KERNEL")),
          accesses(std::strtoull(environment("CLMEMBENCH_TRACE_ACCESSES").c_str(), nullptr, 10)),
          seconds(std::strtod(environment("CLMEMBENCH_TRACE_SECONDS").c_str(), nullptr)) {}

    bool isThreadSafe() const override { return false; }

    void kernelBegin(const KernelInvocation* invocation) override {
        if (done || (!kernel.empty() && invocation->getKernel()->getName() != kernel)) return;
        launch = invocation;
        events.open(prefix + ".events", std::ios::binary);
        began = cpu_seconds();
        auto& groups = const_cast<KernelInvocation*>(invocation)->m_workGroups;
        all_groups = groups.size();
        order(groups);
        std::ofstream(prefix + ".source") << invocation->getKernel()->getProgram()->getSource();
        const Size3 global = invocation->getGlobalSize(), local = invocation->getLocalSize();
        std::ostringstream sizes;
        sizes << invocation->getKernel()->getLocalMemorySize() << '\t' << global.x << '\t' << global.y << '\t' << global.z << '\t' << local.x << '\t' << local.y << '\t' << local.z << '\t'
              << invocation->getWorkDim() << '\t' << invocation->getKernel()->getName();
        described = sizes.str();
    }

    void kernelEnd(const KernelInvocation* invocation) override {
        if (invocation != launch) return;
        write();
        launch = nullptr;
        done = true;
    }

    void workGroupBegin(const WorkGroup* group) override {
        if (!launch) return;
        const Size3 id = group->getGroupID(), groups = launch->getNumGroups();
        group_index = (id.z * groups.y + id.y) * groups.x + id.x;  // its getGroupIndex repeats itself in two dimensions
        const Size3 size = group->getGroupSize();
        group_size = size;
        steps.assign(size.x * size.y * size.z, 0);
        branch.assign(steps.size(), nullptr);
        for (auto& one : seen) one.second.by_item.assign(steps.size(), 0);
        epoch = 0;
        finished = 0;
    }

    // Without barriers work-items run one after another, so that a long work-group can be cut between two.
    void workItemComplete(const WorkItem*) override {
        if (launch && ++finished % SUB_GROUP == 0 && finished < steps.size() && epoch == 0 && is_over())
            stop("a part of a work-group was traced", PART);
    }

    void workGroupBarrier(const WorkGroup*, uint32_t) override {
        if (!launch) return;
        epoch++;
        barriers++;
        std::fill(steps.begin(), steps.end(), 0);
    }

    void workGroupComplete(const WorkGroup*) override {
        if (!launch) return;
        done_groups++;
        finished = 0;
        if (is_over())  // the launch ends as if it had no more work-groups
            const_cast<KernelInvocation*>(launch)->m_workGroups.resize(done_groups);
    }

    void instructionExecuted(const WorkItem* item, const llvm::Instruction* instruction, const TypedValue&) override {
        if (!launch) return;
        Seen& what = known(instruction);
        what.executed++;
        const size_t place = index(item);
        if (branch[place]) {  // the last instruction of this work-item was a branch, which led here
            Seen& from = *branch[place];
            emit(from, place, what.number, 0, 0, BRANCH);
            branch[place] = nullptr;
        }
        if (what.branches) branch[place] = &what;
        if (++executed % CLOCK_EVERY == 0 && elapsed() > PATIENCE * seconds) endless();
    }

    void memoryLoad(const Memory* memory, const WorkItem* item, size_t address, size_t size) override {
        access(memory, item, address, size, LOAD);
    }
    void memoryStore(const Memory* memory, const WorkItem* item, size_t address, size_t size, const uint8_t*) override {
        access(memory, item, address, size, STORE);
    }
    void memoryAtomicLoad(const Memory* memory, const WorkItem* item, AtomicOp, size_t address, size_t size) override {
        access(memory, item, address, size, ATOMIC);  // its store is no access of its own
    }
    void memoryLoad(const Memory* memory, const WorkGroup* group, size_t address, size_t size) override {
        copy(memory, group, address, size, LOAD);
    }
    void memoryStore(const Memory* memory, const WorkGroup* group, size_t address, size_t size, const uint8_t*) override {
        copy(memory, group, address, size, STORE);
    }

  private:
    const std::string prefix, kernel;
    const uint64_t accesses;
    const double seconds;
    std::ofstream events;
    double began = 0;
    const KernelInvocation* launch = nullptr;
    bool done = false;
    std::unordered_map<const void*, Seen> seen;
    std::vector<uint32_t> steps;  // by work-item of the group
    std::vector<Seen*> branch;
    std::string described;
    Size3 group_size;
    uint32_t group_index = 0, epoch = 0;
    size_t finished = 0;  // work-items of the group
    uint64_t all_groups = 0, done_groups = 0, barriers = 0, written = 0, executed = 0;

    bool is_over() const { return written >= accesses || elapsed() >= seconds; }
    double elapsed() const { return cpu_seconds() - began; }
    static double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

    // A few neighbours of each stretch, then the next ones, so that wherever the budget ends the whole launch is covered.
    void order(std::vector<Size3>& groups) const {
        const size_t count = groups.size(), stretch = (count + STRETCHES - 1) / STRETCHES;
        std::vector<size_t> places(count);
        std::iota(places.begin(), places.end(), 0);
        std::stable_sort(places.begin(), places.end(), [=](size_t one, size_t other) {
            return one % stretch / NEIGHBOURS < other % stretch / NEIGHBOURS;
        });
        std::vector<Size3> ordered;
        ordered.reserve(count);
        for (size_t place : places) ordered.push_back(groups[place]);
        groups.swap(ordered);
    }

    size_t index(const WorkItem* item) const {
        const Size3 local = item->getLocalID();
        return (local.z * group_size.y + local.y) * group_size.x + local.x;
    }

    Seen& known(const llvm::Instruction* instruction) {
        auto found = seen.find(instruction);
        if (found != seen.end()) return found->second;
        Seen& made = seen[instruction];
        if (seen.size() > UINT16_MAX) stop("the kernel has more than 65535 instructions", 78);
        made.number = seen.size() - 1;
        made.by_item.assign(steps.size(), 0);
        std::ostringstream text;
        dumpInstruction(text, instruction);
        made.text = text.str();
        std::replace(made.text.begin(), made.text.end(), '\n', ' ');
        made.branches = made.text.find("br i1 ") != std::string::npos || made.text.find("switch ") != std::string::npos;
        made.constant = made.text.find("addrspace(2)") != std::string::npos;
        void* location = LLVMInstructionGetDebugLoc(instruction);
        while (location && !is_of_source(location)) location = LLVMDILocationGetInlinedAt(location);
        made.line = location ? LLVMDILocationGetLine(location) : 0;
        return made;
    }

    // Not of a file that the source includes, whose lines have other numbers: the line that calls its function has the cost.
    static bool is_of_source(void* location) {
        unsigned length = 0;
        void* file = LLVMDIScopeGetFile(LLVMDILocationGetScope(location));
        const char* name = file ? LLVMDIFileGetFilename(file, &length) : nullptr;
        return !name || std::string(name, length).find(SOURCE) != std::string::npos;
    }

    void access(const Memory* memory, const WorkItem* item, size_t address, size_t size, Operation operation) {
        if (!launch || !item) return;
        Seen& what = known(item->getCurrentInstruction());
        if (memory->getAddressSpace() == AddrSpacePrivate) {
            (operation == STORE ? what.stores : what.loads)++;
            what.bytes += size;
        } else {
            emit(what, index(item), address, size, memory->getAddressSpace(), operation);
        }
    }

    // An asynchronous copy, which a work-group does: as if its work-items took turns.
    void copy(const Memory* memory, const WorkGroup* group, size_t address, size_t size, Operation operation) {
        const llvm::Instruction* barrier = launch ? group->getCurrentBarrier() : nullptr;
        if (barrier) emit(known(barrier), copied[operation]++ % steps.size(), address, size, memory->getAddressSpace(), operation);
    }
    uint64_t copied[2] = {0, 0};  // loads and stores

    void emit(Seen& what, size_t item, uint64_t address, size_t size, unsigned space, Operation operation) {
        Event event = {};
        event.address = address;
        event.group = group_index;
        event.item = item;
        event.nth = what.by_item[item]++;
        event.step = steps[item]++;
        event.epoch = epoch;
        event.instruction = what.number;
        event.size = size;
        event.space = space == AddrSpaceGlobal && what.constant && operation == LOAD ? AddrSpaceConstant : space;
        event.operation = operation;
        events.write(reinterpret_cast<const char*>(&event), sizeof event);
        if (!events) stop("the trace could not be written", 79);
        if (operation != BRANCH && ++written > PATIENCE * accesses) endless();
    }

    void endless() { stop("one work-group has not ended", ENDLESS); }

    void stop(const char* reason, int code) {
        write();
        std::cerr << reason << std::endl;
        std::_Exit(code);
    }

    void write() {
        events.close();
        std::ofstream table(prefix + ".instructions");
        table << all_groups << '\t' << done_groups << '\t' << finished << '\t' << barriers << '\t' << described << '\n';
        for (const auto& one : seen) {
            const Seen& what = one.second;
            table << what.number << '\t' << what.line << '\t' << what.executed << '\t' << what.loads << '\t' << what.stores
                  << '\t' << what.bytes << '\t' << what.text << '\n';
        }
    }
};

Trace* trace = nullptr;

}  // namespace

extern "C" void initializePlugins(Context* context) {
    trace = new Trace(context);
    context->registerPlugin(trace);
}

extern "C" void releasePlugins(Context* context) {
    context->unregisterPlugin(trace);
    delete trace;
}
