%w[set time json erb optparse csv fileutils tempfile open3 uri net/http ostruct pp tsort delegate forwardable digest
  securerandom find shellwords logger benchmark abbrev prettyprint cgi rexml/document yaml psych racc/parser
  rubygems rubygems/specification rubygems/installer bundler].each { |lib| begin; require lib; rescue LoadError; end }
ISEQ = RubyVM::InstructionSequence
def report(iseq)
  place = ObjectSpace.dump(iseq)[/"references":\["(0x\h+)"/, 1] or return
  puts "iseq\t#{place}\t#{iseq.first_lineno}\t#{iseq.label}\t#{iseq.base_label}\t#{iseq.path}"
  # Lines stand where they change, and never where they are 0; labels and events are Symbols.
  line = nil
  said = false
  position = 0
  iseq.to_a.last.each do |element|
    case element
    when Integer
      line = element
      said = true
    when Array
      puts "#{said ? "at" : "still"}\t#{position}\t#{line}" if line
      said = false
      position += element.size
    end
  end
  iseq.each_child { |child| report(child) }
end
GC.disable
count = 0
done = {}
ObjectSpace.each_object(Module).to_a.each do |mod|
  (Module.instance_method(:instance_methods).bind_call(mod, false) +
   Module.instance_method(:private_instance_methods).bind_call(mod, false)).each do |name|
    body = Module.instance_method(:instance_method).bind_call(mod, name) rescue next
    iseq = ISEQ.of(body) or next
    next if done[[iseq.path, iseq.first_lineno, name]] || count > 1500
    done[[iseq.path, iseq.first_lineno, name]] = true
    count += 1
    report(iseq)
  end
end
def long_method; end
source = "def big\n" + (1..600).map { |i| i % 3 == 0 ? "\n\n  x#{i} = [#{i}, 'a']; y = x#{i}" : "  p(#{i}) if #{i}.odd?" }.join("\n") + "\nend"
eval(source, binding, "big.rb", 40)
report(ISEQ.of(method(:big)))
report(ISEQ.compile("1\n\n2; foo(3)\n", "compiled.rb", "/abs/compiled.rb", 7))
ready
