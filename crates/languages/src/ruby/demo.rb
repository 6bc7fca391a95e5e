# The server of `lancet demo`. It asks itself for pages. Three faults are in it, each at a line that is marked so.
class Shop
  LEDGER, STOCK = Mutex.new, Mutex.new

  def initialize
    @visits = []
  end

  def serve(number)
    remember(number)
    orders(number).sum { |order| order[:total] }
  end

  def remember(number)
    @visits << { number: number, page: "/orders/#{number}" } # the leak
  end

  def orders(number)
    sleep 0.02 # the slow query
    Array.new(20) { |id| { id: id, total: (id * number) % 97 } }
  end

  # Each has one lock when it wants the other.
  def pay
    LEDGER.synchronize do
      Thread.pass until STOCK.locked?
      STOCK.synchronize { "paid" } # the lock
    end
  end

  def ship
    STOCK.synchronize do
      Thread.pass until LEDGER.locked?
      LEDGER.synchronize { "shipped" } # the lock
    end
  end
end

shop = Shop.new
Thread.new { $stdin.read; exit! 0 }
workers = { "pay" => Thread.new { shop.pay }, "ship" => Thread.new { shop.ship } }
workers.each { |name, thread| thread.name = name }
$stdout.sync = true
puts "ready #{Process.pid}"
(1..).each { |number| shop.serve(number) }
