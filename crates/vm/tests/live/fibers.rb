# Fibers in all states; what each parked one would say of its frames.
def wait_in(n)
  n == 0 ? Fiber.yield : [1].each { wait_in(n - 1) }
end
parked = (0..3).map { |n| Fiber.new { wait_in(n) } }
parked.each(&:resume)
created = Fiber.new { 1 }
ended = Fiber.new { 1 }
ended.resume
numbers = [1, 2, 3].each
numbers.next
of_thread = Queue.new
thread = Thread.new { inner = Fiber.new { of_thread << inner; Queue.new.pop }; inner.resume }
inner = of_thread.pop
sleep 0.01 until thread.status == "sleep"

main = Fiber.current if Fiber.respond_to?(:current)
outer = nil
innermost = Fiber.new do
  fibers = parked + [main, outer].compact
  fibers.each do |fiber|
    next puts("fiber\t#{address(fiber)}") unless fiber.respond_to?(:backtrace_locations)
    frames = fiber.backtrace_locations.reject { |at| %w[each yield resume new eval].include?(at.base_label) || at.path.start_with?("<internal:") }
    puts "fiber\t#{address(fiber)}\t#{frames.map { |at| "#{at.base_label}:#{at.lineno}" }.join(" ")}"
  end
  ready
end
outer = Fiber.new { [1].each { innermost.resume } }
outer.resume
