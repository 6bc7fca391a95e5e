"""frida_hook: hooks functions of a process by Frida, entry and return; says `ready`; at a line of input says how
often the first one was called.

  PYTHON frida_hook.py PID compiled|script LIBRARY FUNCTION...

What a hook does is what lancet's does: six arguments, the time, the result and the time again, in Frida's fastest way (a
CModule) or in JavaScript.
"""

import json
import sys

import frida

COMPILED = r"""
#include <gum/guminterceptor.h>
#include <glib.h>
extern volatile gint calls;
typedef struct { guint64 words[9]; } Record;
void onEnter(GumInvocationContext *context) {
  Record *record = GUM_IC_GET_INVOCATION_DATA(context, Record);
  for (int i = 0; i < 6; i++) record->words[i] = (guint64) gum_invocation_context_get_nth_argument(context, i);
  record->words[6] = g_get_monotonic_time();
}
void onLeave(GumInvocationContext *context) {
  Record *record = GUM_IC_GET_INVOCATION_DATA(context, Record);
  record->words[7] = (guint64) gum_invocation_context_get_return_value(context);
  record->words[8] = g_get_monotonic_time();
  calls++;
}
"""
LISTENERS = {
    "compiled": f"const count = Memory.alloc(8); const listener = new CModule({json.dumps(COMPILED)}, {{ calls: count }});"
                "rpc.exports = { count() { return count.readS32(); } };",
    "script": "let count = 0; const listener = {"
              "onEnter(a) { this.words = [a[0], a[1], a[2], a[3], a[4], a[5]]; this.time = Date.now(); },"
              "onLeave(result) { this.result = result; this.back = Date.now(); count++; } };"
              "rpc.exports = { count() { return count; } };",
}
HOOK = "const module = Process.getModuleByName(%s); %s.forEach((name, at) => " \
       "Interceptor.attach(module.getExportByName(name), at ? { onEnter() {} } : listener)); Interceptor.flush();"


def main():
    pid, kind, library, *functions = sys.argv[1:]
    session = frida.attach(int(pid))
    script = session.create_script(LISTENERS[kind] + HOOK % (json.dumps(library), json.dumps(functions)))
    script.on("message", lambda message, _: print(message, file=sys.stderr, flush=True))
    script.load()
    print("ready", flush=True)
    sys.stdin.readline()
    print("told", script.exports_sync.count(), flush=True)
    session.detach()


main()
