# Makes the image that tests/image reads: threads with Mutexes, and an Array of objects of every layout.
class Plain
  attr_reader :first
  @of_class = "of the class"
  @@shared = "shared"
  def initialize(count)
    count.times { |at| instance_variable_set("@v#{at}", "value #{at}") }
    @first = "first"
  end
end
module Worker
  class Job
    def run(mutex)
      mutex.synchronize { 1 }
    end
    def self.wait(queue)
      queue.pop
    end
  end
end
Pair = Struct.new(:left, :right)
mutex, queue = Mutex.new, Queue.new
mutex.lock
Mutex.new.tap { |other| KEPT_LOCKED = other }.lock
threads = [
  Thread.new { Worker::Job.new.run(mutex) }.tap { |thread| thread.name = "wants" },
  Thread.new { Worker::Job.wait(queue) }.tap { |thread| thread.name = "waits" },
]
threads << Thread.new { threads[1].join }.tap { |thread| thread.name = "joins" }
Thread.pass until threads.all?(&:stop?)
frozen = "a text that is longer than any slot of the heap has room for " * 20
COMPLEX = Plain.new(2)
# Removing variables in many orders makes an object keep them in a table.
1200.times { |at| Plain.new(0).instance_variable_set("@only#{at}", 1) }
MANY = Plain.new(0)
MANY.instance_variable_set("@in_table", "by table")
KEPT = [
  Plain.new(2), Plain.new(40), MANY, Pair.new("l", "r"), Plain,
  [1, 2.5, "three", :four, nil, true], { one: 1, "two" => [2] }, (1..20).to_h { |at| [at, at.to_s] },
  frozen, 1..3, 10**40, 1.0e300, Worker::Job, proc { frozen }, mutex, Thread.main, Class.new, "é€",
]
puts address(KEPT)
ready
