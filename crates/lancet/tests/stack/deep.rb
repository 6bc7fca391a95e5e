# Goes deep in ways C code calls Ruby code back, says what `caller_locations` says, and waits. What is said and the wait are
# on one line, so that it stays true.
def told
  of_c = %w[each map new gsub eval]
  frames = caller_locations(1).reject { |at| of_c.include?(at.base_label) }
  puts 'stack', frames.map { |at| [at.label, at.path, at.lineno].join("\t") }, 'ready'
  STDOUT.flush
end

class Thing
  def initialize(n)
    deep(n)
  end

  def method_missing(name, n)
    deep(n)
  end
end

def waits
  told; STDIN.gets
end

def deep(n)
  return waits if n == 0
  n -= 1
  case n % 7
  when 0 then [1].each { deep(n) }
  when 1 then Thing.new(n)
  when 2 then Thing.allocate.missing(n)
  when 3 then { a: 1 }.map { |_, _| deep(n) }
  when 4 then eval('deep(n)')
  when 5 then begin deep(n) ensure 0 end
  else 'x'.gsub(/x/) { deep(n).to_s }
  end
end

deep(ARGV[0].to_i)
