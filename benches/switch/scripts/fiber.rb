# Ruby's Fiber: resume and yield, one value each way. Prints "ruby-fiber ns" per round.
fiber = Fiber.new { |value| loop { value = Fiber.yield(value) } }
rounds = 300_000
7.times do
  from = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  rounds.times { |n| fiber.resume(n) }
  puts "ruby-fiber #{(Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) - from) / (2.0 * rounds)}"
end
