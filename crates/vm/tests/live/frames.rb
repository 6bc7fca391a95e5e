# `stack` prints the Ruby-level frames and waits on the same line. C functions show up in
# `caller_locations` too, at their caller's line; those used here are left out by name.
C = %w[each instance_eval times eval loop call resume ruby_lines]

def ruby_lines
  caller_locations(1).reject { |place| place.path.start_with?("<internal:") || C.include?(place.base_label) }
end

def stack(who, wait)
  ruby_lines.each { |place| puts "#{who}\t#{place.path}\t#{place.lineno}\t#{place.base_label}" }; wait.call
end

class Deep
  define_method(:made) do |who, wait|
    [1].each do |_|
      inner(who,
        wait,
        2)
    end
  end

  def inner(who, wait, n)
    1.times do
      if n > 0
        inner(who, wait, n - 1)
      else
        yield_it { eval("\n\nstack(who, wait)", binding, "evaluated.rb", 10) }
      end
    end
  end

  # 3.4 shows one place for a rescue clause and its method.
  if RUBY_VERSION < "3.4"
    def yield_it
      raise "x"
    rescue
      yield
    ensure
      @x = 1
    end
  else
    def yield_it
      yield
    ensure
      @x = 1
    end
  end
end

queue = Queue.new
thread = Thread.new { Fiber.new { Deep.new.made("thread", -> { queue << 1; sleep }) }.resume }
queue.pop
puts "object\t#{address(thread)}"
Deep.new.made("main", -> { ready })
