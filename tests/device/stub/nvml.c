/* A libnvidia-ml.so.1 that says what the environment tells it to; loaded by the real nvidia-ml-py.
 *
 *   STUB_BOARDS         UUIDs, separated by commas (default: one board)
 *   STUB_RC             "function=code" items, separated by spaces: what these functions return.
 *                       "function=code@N": from their Nth call on (1 is the first).
 *   STUB_RC_1           the same for the second board (index 1) alone, and so on
 *   STUB_GONE           a path: while such a file exists every call returns 999 (unknown error)
 *   STUB_ENERGY         millijoules, separated by commas, one a call, the last one for ever;
 *                       unset: 100 W by the monotonic clock, shown every 100 ms
 *   STUB_FIELD_186/185/82   "code:type:value": nvmlReturn, valueType and value of that field
 *   STUB_MODULE_186/185     the same at scope MODULE
 *   STUB_SAMPLES        microseconds of the driver's power samples, separated by commas;
 *                       "live N": one every N ms of the wall clock, the last 119 that are 20 ms old
 *   STUB_SAMPLES_END    a path: while such a file exists no more live samples come
 *   STUB_GRAPHICS, STUB_MPS     processes that draw, and clients of MPS, separated by commas
 *   STUB_POWER          milliwatts of nvmlDeviceGetPowerUsage
 *   STUB_NAME, STUB_NAME_1 ...          a board's name, any bytes
 *   STUB_TEMPERATURE, STUB_SM, STUB_MEMORY_CLOCK, STUB_REASONS, STUB_LIMIT, STUB_DEFAULT_LIMIT,
 *   STUB_PERSISTENCE, STUB_MIG, STUB_ECC, STUB_VIRTUALIZATION, STUB_MEMORY, STUB_MAJOR, STUB_MINOR
 *   STUB_PIDS           processes computing on the board, separated by commas
 *   STUB_USED           bytes of memory that processes hold; STUB_UTILIZATION, in percent
 *
 * Compiled with -DOLD it lacks what a driver of 2018 lacked. Field layouts are those of nvml.h.
 */

#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, UNKNOWN = 999 };
enum { BOARDS = 8, FUNCTIONS = 64, PIDS = 16 };

typedef struct {
    int index;
    char uuid[96];
} Board;

typedef union {
    double dVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
} Value;

typedef struct {
    uint32_t fieldId, scopeId;
    int64_t timestamp, latencyUsec;
    uint32_t valueType, nvmlReturn;
    Value value;
} FieldValue;

typedef struct {
    unsigned long long timeStamp;
    Value value;
} Sample;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} Process;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} MemoryV2;

typedef struct {
    unsigned int gpu, memory;
} Utilization;

static Board boards[BOARDS];
static int count;

static const char *text(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static unsigned long long number(const char *name, unsigned long long otherwise) {
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

/* Counts the calls of each function, by name. */
static int called(const char *function) {
    static struct {
        char name[64];
        int calls;
    } seen[FUNCTIONS];
    for (int i = 0; i < FUNCTIONS; i++) {
        if (!seen[i].name[0]) snprintf(seen[i].name, sizeof seen[i].name, "%s", function);
        if (!strcmp(seen[i].name, function)) return ++seen[i].calls;
    }
    abort();
}

static int listed(const char *variable, const char *function, int call) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text(variable, ""));
    char *rest = NULL;
    for (char *item = strtok_r(copy, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(item, '=');
        if (!equals) abort();
        *equals = 0;
        char *at = strchr(equals + 1, '@');
        if (!strcmp(item, function) && (!at || call >= atoi(at + 1))) return atoi(equals + 1);
    }
    return SUCCESS;
}

static int code(const char *function, const Board *board) {
    char variable[32];
    const char *gone = getenv("STUB_GONE");
    int call = called(function);
    if (gone && access(gone, F_OK) == 0) return UNKNOWN;
    int own = 0;
    if (board) {
        snprintf(variable, sizeof variable, "STUB_RC_%d", board->index);
        own = listed(variable, function, call);
    }
    return own ? own : listed("STUB_RC", function, call);
}

#define ANSWER_OR_FAIL(board)               \
    do {                                    \
        int failed = code(__func__, board); \
        if (failed) return failed;          \
    } while (0)

/* Starting and finding boards */

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    ANSWER_OR_FAIL(NULL);
    char copy[1024];
    char *rest = NULL;
    snprintf(copy, sizeof copy, "%s",
             text("STUB_BOARDS", "GPU-11111111-2222-3333-4444-555555555555"));
    count = 0;
    for (char *uuid = strtok_r(copy, ",", &rest); uuid; uuid = strtok_r(NULL, ",", &rest)) {
        boards[count].index = count;
        snprintf(boards[count].uuid, sizeof boards[count].uuid, "%s", uuid);
        count++;
    }
    return SUCCESS;
}

int nvmlShutdown(void) {
    ANSWER_OR_FAIL(NULL);
    return SUCCESS;
}

const char *nvmlErrorString(int result) {
    return result == 77 ? "a code of tomorrow" : "no such code";
}

int nvmlDeviceGetCount_v2(unsigned int *found) {
    ANSWER_OR_FAIL(NULL);
    *found = (unsigned int)count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Board **board) {
    if (index >= (unsigned int)count) return INVALID;
    ANSWER_OR_FAIL(&boards[index]);
    *board = &boards[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Board **board) {
    ANSWER_OR_FAIL(NULL);
    for (int i = 0; i < count; i++)
        if (!strcmp(boards[i].uuid, uuid)) {
            *board = &boards[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

/* What a board is */

int nvmlDeviceGetUUID(Board *board, char *uuid, unsigned int size) {
    ANSWER_OR_FAIL(board);
    snprintf(uuid, size, "%s", board->uuid);
    return SUCCESS;
}

int nvmlDeviceGetName(Board *board, char *name, unsigned int size) {
    char variable[32];
    ANSWER_OR_FAIL(board);
    snprintf(variable, sizeof variable, "STUB_NAME_%d", board->index);
    snprintf(name, size, "%s", text(variable, text("STUB_NAME", "NVIDIA Stub")));
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int size) {
    ANSWER_OR_FAIL(NULL);
    snprintf(version, size, "580.0");
    return SUCCESS;
}

int nvmlSystemGetNVMLVersion(char *version, unsigned int size) {
    ANSWER_OR_FAIL(NULL);
    snprintf(version, size, "13.580.0");
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Board *board, int *major, int *minor) {
    ANSWER_OR_FAIL(board);
    *major = (int)number("STUB_MAJOR", 9);
    *minor = (int)number("STUB_MINOR", 0);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Board *board, Memory *memory) {
    ANSWER_OR_FAIL(board);
    memory->total = number("STUB_MEMORY", 80ULL << 30);
    memory->used = 0;
    memory->free = memory->total;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Board *board, MemoryV2 *memory) {
    ANSWER_OR_FAIL(board);
    memory->total = number("STUB_MEMORY", 80ULL << 30);
    memory->reserved = 600ULL << 20;
    memory->used = number("STUB_USED", 0);
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Board *board, Utilization *rates) {
    ANSWER_OR_FAIL(board);
    rates->gpu = (unsigned int)number("STUB_UTILIZATION", 0);
    rates->memory = 0;
    return SUCCESS;
}

#define SETTING(function, variable, otherwise)          \
    int function(Board *board, unsigned int *value) {   \
        ANSWER_OR_FAIL(board);                          \
        *value = (unsigned int)number(variable, otherwise); \
        return SUCCESS;                                 \
    }

#define SETTING_AND_PENDING(function, variable, otherwise)                     \
    int function(Board *board, unsigned int *value, unsigned int *pending) {   \
        ANSWER_OR_FAIL(board);                                                 \
        *value = *pending = (unsigned int)number(variable, otherwise);         \
        return SUCCESS;                                                        \
    }

SETTING(nvmlDeviceGetPersistenceMode, "STUB_PERSISTENCE", 1)
SETTING(nvmlDeviceGetEnforcedPowerLimit, "STUB_LIMIT", 700000)
SETTING(nvmlDeviceGetPowerManagementDefaultLimit, "STUB_DEFAULT_LIMIT", 700000)

int nvmlDeviceGetPowerManagementLimitConstraints(Board *board, unsigned int *low,
                                                 unsigned int *high) {
    ANSWER_OR_FAIL(board);
    *low = 200000;
    *high = 700000;
    return SUCCESS;
}

SETTING(nvmlDeviceGetVirtualizationMode, "STUB_VIRTUALIZATION", 0)
SETTING_AND_PENDING(nvmlDeviceGetMigMode, "STUB_MIG", 0)
SETTING_AND_PENDING(nvmlDeviceGetEccMode, "STUB_ECC", 1)

/* What a board reads */

SETTING(nvmlDeviceGetPowerUsage, "STUB_POWER", 123000)

int nvmlDeviceGetTemperature(Board *board, unsigned int sensor, unsigned int *value) {
    ANSWER_OR_FAIL(board);
    if (sensor != 0) return INVALID;
    *value = (unsigned int)number("STUB_TEMPERATURE", 41);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureThreshold(Board *board, unsigned int which, unsigned int *value) {
    ANSWER_OR_FAIL(board);
    if (which != 1) return INVALID;
    *value = 87;
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(Board *board, unsigned int domain, unsigned int *value) {
    ANSWER_OR_FAIL(board);
    if (domain != 1) return INVALID;
    *value = 1980;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(Board *board, unsigned int domain, unsigned int *value) {
    ANSWER_OR_FAIL(board);
    if (domain == 1) *value = (unsigned int)number("STUB_SM", 1980);
    if (domain == 2) *value = (unsigned int)number("STUB_MEMORY_CLOCK", 3201);
    return domain == 1 || domain == 2 ? SUCCESS : INVALID;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Board *board, unsigned long long *bits) {
    ANSWER_OR_FAIL(board);
    *bits = number("STUB_REASONS", 0);
    return SUCCESS;
}

static int processes(const char *function, const char *variable, Board *board, unsigned int *size,
                     Process *found) {
    char copy[256];
    char *rest = NULL;
    unsigned int known = 0, pids[PIDS];
    int failed = code(function, board);
    if (failed) return failed;
    snprintf(copy, sizeof copy, "%s", text(variable, ""));
    for (char *pid = strtok_r(copy, ",", &rest); pid; pid = strtok_r(NULL, ",", &rest))
        pids[known++] = (unsigned int)atoi(pid);
    if (*size < known) {
        *size = known;
        return TOO_SMALL;
    }
    for (unsigned int i = 0; i < known; i++) found[i].pid = pids[i];
    *size = known;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Board *board, unsigned int *size, Process *found) {
    return processes(__func__, "STUB_PIDS", board, size, found);
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(Board *board, unsigned int *size, Process *found) {
    return processes(__func__, "STUB_GRAPHICS", board, size, found);
}

static int live(unsigned long long since, unsigned int *type, unsigned int *size, Sample *found) {
    static unsigned long long ended;
    struct timespec now;
    unsigned long long step = strtoull(text("STUB_SAMPLES", "") + 5, NULL, 10) * 1000;
    const char *end = getenv("STUB_SAMPLES_END");
    unsigned int known = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long newest = (unsigned long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    newest = (newest - 20000) / step * step;
    if (end && access(end, F_OK) == 0) newest = ended = ended ? ended : newest;
    for (int age = 118; age >= 0; age--) {
        unsigned long long time = newest - (unsigned long long)age * step;
        if (time <= since) continue;
        if (found && known < *size) {
            found[known].timeStamp = time;
            found[known].value.ullVal = 160000;
        }
        known++;
    }
    *type = 1;
    *size = found && known > *size ? *size : known;
    return known ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetSamples(Board *board, unsigned int kind, unsigned long long since,
                         unsigned int *type, unsigned int *size, Sample *found) {
    char copy[1024];
    char *rest = NULL;
    unsigned int known = 0;
    ANSWER_OR_FAIL(board);
    if (kind != 0) return INVALID;
    if (!strncmp(text("STUB_SAMPLES", ""), "live ", 5)) return live(since, type, size, found);
    snprintf(copy, sizeof copy, "%s", text("STUB_SAMPLES", "1000000,1020000,1040000,1066000"));
    for (char *at = strtok_r(copy, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
        unsigned long long time = strtoull(at, NULL, 10);
        if (time <= since) continue;
        if (found && known < *size) {
            found[known].timeStamp = time;
            found[known].value.ullVal = 150000;
        }
        known++;
    }
    *type = 1;
    *size = known;
    return known ? SUCCESS : NOT_FOUND;
}

#ifndef OLD

int nvmlDeviceGetGraphicsRunningProcesses_v3(Board *board, unsigned int *size, Process *found) {
    return processes(__func__, "STUB_GRAPHICS", board, size, found);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Board *board, unsigned int *size, Process *found) {
    return processes(__func__, "STUB_MPS", board, size, found);
}

int nvmlDeviceGetComputeRunningProcesses_v3(Board *board, unsigned int *size, Process *found) {
    return processes(__func__, "STUB_PIDS", board, size, found);
}

int nvmlDeviceGetCurrentClocksEventReasons(Board *board, unsigned long long *bits) {
    ANSWER_OR_FAIL(board);
    *bits = number("STUB_REASONS", 0);
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(Board *board, unsigned long long *energy) {
    static int calls;
    ANSWER_OR_FAIL(board);
    const char *script = getenv("STUB_ENERGY");
    if (!script) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        *energy = (unsigned long long)(now.tv_sec * 10 + now.tv_nsec / 100000000) * 10000;
        return SUCCESS;
    }
    for (int skip = calls++; skip && strchr(script, ','); skip--) script = strchr(script, ',') + 1;
    *energy = strtoull(script, NULL, 10);
    return SUCCESS;
}

static void fill(FieldValue *field) {
    char variable[32];
    const char *otherwise = field->fieldId == 186   ? "0:1:150000"
                            : field->fieldId == 185 ? "0:1:140000"
                            : field->fieldId == 82  ? "0:1:44"
                                                    : "3:1:0";
    snprintf(variable, sizeof variable, "STUB_%s_%u", field->scopeId ? "MODULE" : "FIELD",
             field->fieldId);
    const char *script = text(variable, field->scopeId ? "3:1:0" : otherwise);
    int type;
    double value;
    memset(&field->value, 0, sizeof field->value);
    if (field->scopeId > 1) {
        field->nvmlReturn = NOT_SUPPORTED;
        return;
    }
    if (sscanf(script, "%u:%d:%lf", &field->nvmlReturn, &type, &value) != 3) abort();
    field->valueType = (uint32_t)type;
    switch (type) {
    case 0: field->value.dVal = value; break;
    case 1: field->value.uiVal = (unsigned int)value; break;
    case 2: field->value.ulVal = (unsigned long)value; break;
    case 3: field->value.ullVal = (unsigned long long)value; break;
    case 4: field->value.sllVal = (long long)value; break;
    case 5: field->value.siVal = (int)value; break;
    case 6: field->value.usVal = (unsigned short)value; break;
    default: break;
    }
}

int nvmlDeviceGetFieldValues(Board *board, int size, FieldValue *fields) {
    ANSWER_OR_FAIL(board);
    for (int i = 0; i < size; i++) fill(&fields[i]);
    return SUCCESS;
}

#endif
