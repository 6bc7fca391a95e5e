require "objspace"
CLASS = Kernel.instance_method(:class)
INSPECT = Module.instance_method(:inspect)

def address(object)
  ObjectSpace.dump(object)[/"address":"(0x\h+)"/, 1]
end

def ready
  $stdout.puts("READY")
  $stdout.flush
  $stdin.sysread(1)
end
