class Plain; end
class Liar
  def self.name; "Honest"; end
  def self.to_s; "Honest"; end
  def self.inspect; "Honest"; end
  def self.class; Integer; end
  def class; String; end
  def inspect; raise "never"; end
end
class Bare < BasicObject; end
module Outer; module Inner; class Leaf; end; end; Point = Struct.new(:x, :y); end
class Kind < Module; end
module Mixin; end
class Mixed; include Mixin; prepend Comparable; end
class Überklasse; end
LONG = Outer.const_set("L" + "ong" * 100, Class.new)
anonymous = Class.new
anonymous.const_set(:Nested, Class.new)
anonymous_module = Module.new
anonymous_module.const_set(:Deep, Module.new).const_set(:Deeper, Class.new)
kind = Kind.new
NAMED_KIND = Kind.new
singular = Plain.new
def singular.special; end
extended = Object.new.extend(Mixin)
class << Plain; class << self; def meta; end; end; end
many = Class.new
200.times { |i| many.instance_variable_set("@v#{i}", i) }
100.times { |i| many.remove_instance_variable("@v#{i * 2}") }
Many = many
variables = Class.new
20.times { |i| variables.instance_variable_set("@w#{i}", "Object") }
reopened = Class.new(Plain)
reopened.name
Later = reopened
if Module.method_defined?(:set_temporary_name)
  temporary = Class.new.set_temporary_name("fake name")
end

objects = [Plain.new, Liar.new, Bare.new, Outer::Inner::Leaf.new, Outer::Point.new(1, 2), kind, NAMED_KIND,
  Mixed.new, Überklasse.new, LONG.new, anonymous.new, anonymous::Nested.new, anonymous_module::Deep::Deeper.new,
  singular, extended, Many.new, variables.new, Later.new, "string", [1], {a: 1}, 1..2, /x/, 2**80, 1.0e300, 3r + 2**70,
  Complex(1, 2), Class.new(Bare).new, Thread.current, $stdout, proc {}, method(:puts), "a".match(/a/), "dynamic#{1}".to_sym,
  Struct.new(:q).new(1), Time.now, Random.new, Mutex.new, Enumerator.new {}, Fiber.new {}, temporary]
GC.disable
objects.each do |object|
  place = address(object)
  puts "object\t#{place}\t#{INSPECT.bind_call(CLASS.bind_call(object))}" if place
end
ObjectSpace.each_object(Module).to_a.each do |mod|
  name = INSPECT.bind_call(mod)
  # What is inside `#<Class:…>` is asked for its name, so Liar spoils that of its singleton class.
  next if name.start_with?("#<refinement:") || name.include?("Honest")
  puts "class\t#{address(mod)}\t#{name}"
  # An anonymous module of a class of its own is called `#<#<Class:0x…>:0x…>` by Ruby once it has a
  # singleton class, `#<Kind:0x…>` by us.
  singleton = mod.singleton_class? rescue next
  next if singleton || mod == Liar || mod.equal?(kind)
  puts "class\t#{address(mod.singleton_class)}\t#{INSPECT.bind_call(mod.singleton_class)}"
end
[singular, extended].each { |o| puts "class\t#{address(o.singleton_class)}\t#{INSPECT.bind_call(o.singleton_class)}" }
[Outer, Outer::Inner, Math].each { |mod| puts "constants\t#{address(mod)}\t#{mod.constants(false).size}" }
ready
