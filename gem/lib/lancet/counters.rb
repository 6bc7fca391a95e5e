# frozen_string_literal: true

require_relative "companion"

module Lancet
  # Calls that one thread makes in a stretch of its time, by group: `malloc`, `free`, `read`, `write`, `connect`, `mysql`, `postgres`,
  # `sqlite`, `memcached`, `redis`. Their functions are hooked once for this process and stay hooked as long as the companion is there.
  #
  # A thread sets a mark where a stretch begins and where it ends, and asks only then what lies between, if anybody wants to know.
  class Counters
    # All but memory, which takes a call for each object that needs more than its slot.
    USUAL = %i[read write connect mysql postgres sqlite memcached redis].freeze
    # What only waits: for input, for a lock, for the clock, for a child process, for a disk, for the address of a host. More groups than one when they are told.
    WAITS = %i[waits poll sleep lock child disk lookup].freeze
    ALL = [*USUAL, :memory, *WAITS].freeze
    # Those of a page.
    SHOWN = [*USUAL, :waits].freeze
    # ENV.key? calls `getenv`, with which a mark is set: nobody else asks for such a name.
    MARK = "LANCET_TRACE_"
    private_constant :MARK

    # What was called of one group: how often, for how many seconds, and the bytes that were moved or got.
    Sum = Struct.new(:calls, :time, :bytes)

    @lock = Monitor.new
    @all = {}
    @last_found = nil
    @numbering = Mutex.new
    @last = 0

    class << self
      # Sets a mark in the calls of this thread, and returns its number, which no other mark of this process has: each `lancet calls` sees the marks of all
      # threads, also those that are meant for another one.
      def mark
        number = @numbering.synchronize { @last += 1 }
        ENV.key?("#{MARK}#{number}")
        number
      end

      # Raises for what says no groups: true, false, nil, or an Array of their names.
      def check(groups)
        return if [true, false, nil].include?(groups)

        raise ArgumentError, "calls is true, false, or an Array of groups: #{ALL.join(", ")}" unless groups.is_a?(Array)

        groups.each { |one| raise ArgumentError, "there is no group of calls #{one.inspect}: there are #{ALL.join(", ")}" unless ALL.map(&:to_s).include?(one.to_s) }
      end

      # Those of this process for these groups (true: the usual ones).
      def of(groups)
        # Most programs have one choice, and ask for it with each request.
        known, last = @last_found
        return last if groups.equal?(known) && last.there?

        names = (groups == true ? USUAL : groups).map(&:to_s).sort
        found = @lock.synchronize do
          @all.delete(names) unless @all[names]&.there?
          @all[names] ||= new(names)
        end
        @last_found = [groups, found].freeze if groups.frozen?
        found
      end
    end

    def initialize(groups)
      @companion, answer = Companion.begin("\"do\":\"counters\",\"groups\":#{Companion.list(groups)}")
      @watch = answer.fetch(:watch)
      @gone = false
    end

    # Whether calls are still counted, as far as is known: one question that fails (too many calls were made since) is no reason to have all functions
    # hooked once more.
    def there?
      !@gone && !@companion.over?
    end

    def mark
      Counters.mark
    end

    # Sums by group of what lies between two marks, of each of these pairs together; sentences about what may be missing in them; with `details` what the calls
    # were about and when they were made.
    def between(stretches, details: false)
      sums = {}
      told = nil
      ended = @companion.ask("\"do\":\"between\",\"watch\":#{@watch},\"stretches\":#{JSON.generate(stretches)},\"details\":#{details}") do |record|
        if record.key?(:details)
          told = record[:details]
        else
          sums[record[:group].to_sym] = Sum.new(record[:calls], record[:time_ns] / 1e9, record[:bytes])
        end
      end
      [sums, ended.fetch(:lost, []), told]
    rescue Lost
      # Whoever traces next has the functions hooked anew.
      @gone = true
      raise
    end
  end
end
