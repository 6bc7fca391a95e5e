// Put before libruby, this notes every method that Ruby or an extension defines in C: the oracle for
// methods by name. No libc is linked, so that it runs in roots with an older one.
typedef unsigned long value;

extern void *dlsym(void *, const char *);
#define NEXT ((void *)-1)

enum { INSTANCES = 1, ITSELF = 2, BOTH = 3, ALIAS = 4, UNDEF = 5 };

struct {
  unsigned long count;
  struct {
    unsigned long module, function, argc, kind;
    char name[64], original[64];
  } all[1 << 14];
} lancet_definitions __attribute__((visibility("default")));

static void copy(char *to, const char *from) {
  for (int at = 0; from && at < 63 && from[at]; at++) to[at] = from[at];
}

static void note(value module, const char *name, void *function, long argc, int kind, const char *original) {
  unsigned long at = lancet_definitions.count;
  if (at == 1 << 14) return;
  lancet_definitions.all[at].module = module;
  lancet_definitions.all[at].function = (unsigned long)function;
  lancet_definitions.all[at].argc = (unsigned long)argc;
  lancet_definitions.all[at].kind = kind;
  copy(lancet_definitions.all[at].name, name);
  copy(lancet_definitions.all[at].original, original);
  lancet_definitions.count = at + 1;
}

#define DEFINES(function, kind)                                                      \
  void function(value module, const char *name, void *code, int argc) {              \
    void (*next)(value, const char *, void *, int) = dlsym(NEXT, #function);         \
    note(module, name, code, argc, kind, 0);                                         \
    next(module, name, code, argc);                                                  \
  }

DEFINES(rb_define_method, INSTANCES)
DEFINES(rb_define_private_method, INSTANCES)
DEFINES(rb_define_protected_method, INSTANCES)
DEFINES(rb_define_singleton_method, ITSELF)
DEFINES(rb_define_module_function, BOTH)

void rb_define_method_id(value module, value id, void *code, int argc) {
  void (*next)(value, value, void *, int) = dlsym(NEXT, "rb_define_method_id");
  const char *(*name)(value) = dlsym(NEXT, "rb_id2name");
  note(module, name(id), code, argc, INSTANCES, 0);
  next(module, id, code, argc);
}

void rb_define_global_function(const char *name, void *code, int argc) {
  void (*next)(const char *, void *, int) = dlsym(NEXT, "rb_define_global_function");
  note(*(value *)dlsym(NEXT, "rb_mKernel"), name, code, argc, BOTH, 0);
  next(name, code, argc);
}

void rb_define_alias(value module, const char *name, const char *original) {
  void (*next)(value, const char *, const char *) = dlsym(NEXT, "rb_define_alias");
  note(module, name, 0, 0, ALIAS, original);
  next(module, name, original);
}

void rb_undef_method(value module, const char *name) {
  void (*next)(value, const char *) = dlsym(NEXT, "rb_undef_method");
  note(module, name, 0, 0, UNDEF, 0);
  next(module, name);
}
