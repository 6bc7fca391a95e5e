# Every method of every named class and module, and where Ruby says it is from.
%w[socket zlib stringio strscan date digest digest/md5 bigdecimal json openssl etc fcntl io/console monitor pathname ripper psych].each do |library|
  begin
    require library
  rescue LoadError
    puts "none\t#{library}"
  end
end

module Shout; def upcase; end; end
class Louder < String; prepend Shout; private :downcase; alias_method :backwards, :reverse; end
class Quiet < String; private :upcase; undef_method :chomp; end
class Holder
  attr_accessor :value
  define_method(:block) { 1 }
  define_method(:made, &:to_s)
  define_method(:taken, String.instance_method(:upcase)) rescue nil
  autoload :Later, "/nowhere/later.rb"
end
module Refined; refine(String) { def swapcase; end; def fresh; end }; end
module Helper; def help; end; end
class Includes; include Comparable; extend Helper; end
module Deep; module Er; class Est < Array; end; NUMBER = 5; end; end
Überklasse = Class.new(Array)
Überklasse.class_eval { alias größe size }
Quiet.define_singleton_method(:own) { }

METHODS = Module.instance_method(:instance_method)
def each_method(mod, name, separator)
  (mod.instance_methods(false) + mod.private_instance_methods(false)).uniq.each do |method|
    found = METHODS.bind_call(mod, method)
    file, line = found.source_location
    puts "method\t#{name}#{separator}#{method}\t#{address(mod)}\t#{found.owner == mod}\t#{found.arity}\t#{file}\t#{line}"
  end
end

GC.disable
mods = ObjectSpace.each_object(Module).reject { |mod| mod.singleton_class? || INSPECT.bind_call(mod).start_with?("#<") }
mods.each do |mod|
  name = INSPECT.bind_call(mod)
  next unless (Object.const_get(name).equal?(mod) rescue false)
  puts "module\t#{address(mod)}\t#{name}"
  each_method(mod, name, "#")
  each_method(mod.singleton_class, name, ".")
end
{"ENV" => ENV, "ARGF" => ARGF}.each { |name, object| puts "module\t#{address(object)}\t#{name}" }
each_method(ENV.singleton_class, "ENV", ".")

[%w[Quiet#upcase String#upcase], %w[Louder#downcase String#downcase], %w[Louder#backwards String#reverse], %w[sleep Kernel#sleep],
 %w[Deep::Er::Est#size Array#size], %w[Integer#sleep Kernel#sleep], %w[Überklasse#größe Array#size], %w[::String#upcase String#upcase],
 %w[Includes.new Class#new], %w[Includes#clamp Comparable#clamp], %w[File.sysopen IO.sysopen], %w[String#swapcase String#swapcase],
 %w[Holder#taken String#upcase]].each { |pair| puts "same\t#{pair.join("\t")}" if pair[0] != "Holder#taken" || Holder.method_defined?(:taken) }

none = "the class or module has no method of this name"
[["NoSuch#x", "no class or module of this name is loaded"], ["Deep::String#upcase", "no class or module of this name is loaded"],
 ["Deep::Er::Nope.x", "no class or module of this name is loaded"], ["::#x", "no class or module of this name is loaded"],
 ["String#nope", none], ["Quiet#chomp", none], ["String#fresh", none], ["Deep.x", none], ["ENV.nope", none], ["nope", none],
 ["String.upcase", "no method of this name, but one of the other kind (# is of instances, . of the class itself)"],
 ["Time#now", "no method of this name, but one of the other kind (# is of instances, . of the class itself)"],
 ["Deep::Er::NUMBER#x", "the constant is no class or module"], ["Deep::Er::NUMBER::X#x", "the constant is no class or module"],
 ["Deep::Er::NUMBER.x", "the constant is no class or module"], ["ENV#fetch", "the constant is no class or module"],
 ["Holder::Later#x", "the constant is loaded when it is first used, which was not yet"],
 ["Louder#upcase", "the method is written in Ruby"], ["Includes.help", "the method is written in Ruby"],
 ["Holder#value", "the method has no C function: it is an attribute's reader, which the VM does itself"],
 ["Holder#value=", "the method has no C function: it is an attribute's writer, which the VM does itself"],
 ["Holder#block", "the method is written in Ruby"],
 ["Holder#made", "the method has no C function: it is a Proc made of something else, which define_method made a method"],
 ["Quiet.own", "the method is written in Ruby"],
 ["Kernel#send", "the method has no C function: the VM does it itself"],
 ["Proc#call", "the method has no C function: the VM does it itself"],
 ["", "a method is named as Class#method or Module.method"], ["#x", "a method is named as Class#method or Module.method"],
 ["String#", "a method is named as Class#method or Module.method"], ["Deep::Er", "a method is named as Class#method or Module.method"],
].each { |name, text| puts "error\t#{name}\t#{text}" }
ready
