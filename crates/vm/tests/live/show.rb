# Values and what inspect says of them, after every object that can move has moved.
ready
GC.compact
$kept = []

# An Array of one element has it in its slot, whatever it is.
def place(value)
  $kept << [value]
  address($kept.last)
end

def show(value, text = value.inspect)
  puts "value\t#{place(value)}\t#{text}"
end

GC.disable
[nil, true, false, 0, 1, -1, 42, 2**61, 2**62 - 1, -2**62, 2**62, -2**62 - 1, 2**63, 2**64 - 1, 2**64, -2**64, 10**9, 10**18, 10**27 + 7, 2**128, 2**191 - 1,
 2**192, -2**192 - 1, 3**200, -7**300, 10**360, 2**1280 - 1].each { |value| show(value) }
show(2**1280, "#<Integer 2**1312 or less>")
show(-2**3000, "#<Integer -2**3008 or less>")
[0.0, -0.0, 1.0, -1.5, 0.1, 1e14, 1e15, 1e16, 123456789012345678.0, 1234567890123456.0, 1234567890123456.7, 999999999999999.0, 9007199254740993.0, 1e-3, 1e-4, 1e-5,
 9.999e-5, 0.00012345, 1e22, 1e100, 1.5e300, 5e-324, 1.7976931348623157e308, Float::INFINITY, -Float::INFINITY, Float::NAN, 1 / 3.0, 2.5e-7, 1e-77, 1e77, 100.0, 3.0e-200,
 Math::PI].each { |value| show(value) }
["", "abc", "it's", 'say "hi"', "tab\tnl\ncr\r\\", "\f\v\b\a\e", "\0\x01\x1f", "é", "\u0080\u009f\u00ff", "Ā", "日本語", "𝄞 music", "\u2028", "mixed é 日 𝄞", "\#{x} \#$y \#@z # #a ##",
 "#", "\xff\xfe", "a\xe6\x97", "\xe6\x97a\xff日", "\xed\xa0\x80", "a" * 199, "é" * 100, "日" * 66, "x" * 23, "x" * 24, "x" * 25,
 "abc\xff\0".b, "caf\xe9".force_encoding("ISO-8859-1"), "plain".encode("US-ASCII"), "\u{10ffff}", "SELECT * FROM t WHERE a = 'b'"].each { |value| show(value) }
show("\x7f")
show("\x7f".b)
# Ruby shows these as they are, which nobody could see.
show("a\u200b\u0301\u{e0001}", '"a\u200B\u0301\u{E0001}"')
show("a" * 1000, ("a" * 200).inspect + "…")
show("日" * 67, ("日" * 66).inspect + "…")
show("x" + "é" * 100, ("x" + "é" * 99).inspect + "…")
show("\xff" * 150 + "日" * 50, ("\xff" * 150 + "日" * 16).inspect + "…")
[:a, :foo, :foo?, :foo!, :foo=, :Foo, :Foo=, :+, :-@, :[], :[]=, :<=>, :===, :!, :!=, :!~, :"foo bar", :"", :"9a", :@a, :@@b, :$c, :$1, :$~, :"$-w", :"@", :"@1", :"$", :"foo?=", :"a-b",
 :é, :日本, :"é è", :"a\nb", :"=", :"[]?", :"a=b", :`, :%, :nil, :"$12a", :_x, :"&&"].each { |value| show(value) }
100.times { |i| show("dynamic_#{i}".to_sym) if i % 20 == 0 }
show("dynamic #{1}".to_sym)
show(("s" * 300).to_sym, ":" + ("s" * 200).inspect + "…")
[[], [1], [1, "two", 3.0], [nil, [1]], [:a, {b: 1}], (1..16).to_a, [1, 2, 3], [1, 2, 3, 4], [[]]].each { |value| show(value) }
show((1..17).to_a, "[" + (1..16).to_a.join(", ") + ", …]")
show([[[1]]], "[[[…]]]")
show([[[]]])
shared = (1..10).to_a
show(shared[5, 5])
shifted = (1..40).to_a
shifted.shift(30)
show(shifted)
circle = []
circle << circle
show(circle, "[[[…]]]")
[{}, {a: 1}, {1 => [2], "b" => {c: nil}}, {nil => true, 1.5 => :x, :"a b" => 1, :a? => 2, :b= => 3, :+ => 4, :@c => 5, :A => 6, :é => 7, :! => 8},
 (1..16).to_h { |i| [i, i.to_s] }, {Object => Comparable}, {}.compare_by_identity, Hash.new(5).merge(x: 1)].each { |value| show(value) }
small = {a: 1, b: 2, c: 3}
small.delete(:b)
show(small)
emptied = {a: 1, b: 2}
emptied.delete(:a)
emptied.delete(:b)
show(emptied)
large = (1..40).to_h { |i| [i, i] }
(1..30).each { |i| large.delete(i) }
show(large)
pair = {1 => 2}.inspect[2..-3]
show((1..300).to_h { |i| [i, i] }, "{" + (1..16).map { |i| "#{i}#{pair}#{i}" }.join(", ") + ", …}")
show([{x: {}}, {x: {y: 1}}][1, 1], [{x: 1}].inspect.sub("1", "{…}"))

class Plain; def inspect; raise "never"; end; end
class Text < String; def inspect; raise "never"; end; end
class List < Array; end
module Outer; class Über; end; Pair = Struct.new(:a); end
{Plain.new => "#<Plain>", Outer::Über.new => "#<Outer::Über>", Object.new => "#<Object>", Outer::Pair.new(1) => "#<Outer::Pair>", /x/ => "#<Regexp>", (1..2) => "#<Range>",
 Thread.current => "#<Thread>", $stdout => "#<IO>", ArgumentError.new("x") => "#<ArgumentError>", proc { } => "#<Proc>", 3r => "#<Rational>", Time.now => "#<Time>"}.each { |value, text| show(value, text) }
show(BasicObject.new, "#<BasicObject>")
show(Text.new("sub"), '"sub"')
show(List.new([1]), "[1]")
[Object, Comparable, Plain, Outer, Outer::Über, Text.singleton_class].each { |value| show(value) }

def call(convention, registers, text)
  puts "call\t#{convention}\t#{registers.join(",")}\t#{text}"
end

def pointer(value)
  $kept << value
  address(value)
end
three = ["SELECT 1", 2, nil]
# Arrays of up to three have their elements in the slot, at 16.
argv = "0x%x" % (pointer(three).hex + 16)
call("Array", [0, pointer(three), 0, 0, 0, 0], '"SELECT 1", 2, nil')
call("Array", [0, pointer([]), 0, 0, 0, 0], "")
call("Array", [0, pointer((1..20).to_a), 0, 0, 0, 0], (1..16).to_a.join(", ") + ", …")
call("Arguments", [3, argv, 0, 0, 0, 0], '"SELECT 1", 2, nil')
call("Arguments", ["0xffff00000001", argv, 0, 0, 0, 0], '"SELECT 1"')
call("Arguments", [0, 0, 0, 0, 0, 0], "")
call("Fixed(0)", [0, 9, 9, 9, 9, 9], "")
call("Fixed(2)", [0, pointer(three[0]), 3, 9, 9, 9], '"SELECT 1", 1')
call("Fixed(5)", [0, 3, 5, 7, 9, 11], "1, 2, 3, 4, 5")
call("Fixed(7)", [0, 3, 5, 7, 9, 11], "1, 2, 3, 4, 5, …")
ready
