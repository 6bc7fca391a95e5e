# frozen_string_literal: true

require_relative "block"
require_relative "companion"
require_relative "memory"

module Lancet
  # Objects that one thread makes, counted apart from those of all others: crates/wire/src/accounts.rs has the layout and says
  # who writes what. The companion gives a thread its account once; from then on the thread begins, reads and ends it itself.
  class Births
    # `Account`: tid, wanted, thread, counting, used, lost, rows, places; 64 bits each.
    HEADER = "Q8"
    HEADER_SIZE = 64
    WANTED = 8
    # `AccountRow`: site, born; 32 bits each.
    ROW_SIZE = 8
    # The agent looks at an object again so many births later, when it shows what it has become.
    NEWBORNS = 64
    GONE = "what was counted is gone: the agent has left"
    private_constant :HEADER, :HEADER_SIZE, :WANTED, :ROW_SIZE, :NEWBORNS, :GONE

    # What a thread has made at the end of a stretch: births by number of their site, until somebody asks what these are.
    Made = Struct.new(:births, :counts, :lost) do
      # Rows of a line and a type, the most first. Not those of this gem, and of what Ruby does not show.
      def rows
        @rows ||= births.name(counts)
      end

      def count
        rows.sum(&:born)
      end
    end

    class << self
      # That of this thread.
      def current
        known = Thread.current.thread_variable_get(:lancet_births)
        return known if known&.ours?

        Thread.current.thread_variable_set(:lancet_births, new)
        Thread.current.thread_variable_get(:lancet_births)
      end
    end

    def initialize
      @owner = Process.pid
      @tid = Integer(File.readlink("/proc/thread-self")[/\d+\z/])
      @memory = Memory.current
      @depth = 0
      @quiet = false
      @at = nil
    end

    def ours?
      @owner == Process.pid
    end

    # Counts from now on. Within another stretch of this thread that goes on, the answer tells what it had made until now.
    def begin
      if @depth.zero?
        want
      else
        before = read
      end
      @depth += 1
      before
    end

    # Ends what `begin` has begun, which has answered `before`; what was made in between.
    def end(before)
      NEWBORNS.times { Object.new }
      found = read
      Made.new(self, less(found.first, before&.first), found.last - (before ? before.last : 0))
    ensure
      @depth -= 1
      @memory.write(@at + WANTED, 0) if @depth.zero?
    end

    # What the block makes is of no stretch: it reports one.
    def quietly
      return yield if @depth.zero? || @quiet

      begin
        @quiet = true
        @memory.write(@at + WANTED, 0)
        yield
      ensure
        @quiet = false
        @memory.write(@at + WANTED, @number)
      end
    end

    # What sites are, as rows.
    def name(counts)
      quietly { named(counts) }
    end

    private

    def named(counts)
      raise Lost, GONE unless @companion.equal?(Companion.current) && given?

      learn(counts.keys.reject { |site| @names.key?(site) })
      rows = {}
      counts.each do |site, born|
        place = @names[site] || @unnamed[site] or next
        (rows[place] ||= Row.new(*place, 0, 0)).born += born
      end
      rows.values.sort_by { |row| [-row.born, row.path.to_s, row.line, row.type] }
    end

    def header
      @memory.read(@at, HEADER_SIZE).unpack(HEADER)
    end

    # The agent has left, or another one has come, if the account is not ours any more.
    def given?
      @at && !@companion.over? && header.first == @tid
    rescue Lost
      false
    end

    # Asks first and looks then whether the account is ours, because the companion takes unused ones back: it looks the other way round.
    def want
      # No account has had this number before.
      @number = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      @memory.write(@at + WANTED, @number) if @at
      return if given?

      take
      @memory.write(@at + WANTED, @number)
    end

    def take
      @companion, answer = Companion.begin("\"do\":\"account\",\"thread\":#{@tid}")
      @at = answer.fetch(:at)
      @names = {}
      @unnamed = {}
    end

    # Births by site since the outermost stretch has begun, and how many found no room.
    def read
      tid, wanted, _, counting, used, lost, rows, = header
      raise Lost, GONE unless tid == @tid && wanted == @number
      # It has made nothing yet.
      return [{}, 0] unless counting == @number
      return [{}, lost] if used.zero?

      [@memory.read(rows, used * ROW_SIZE).unpack("L*").each_slice(2).to_h, lost]
    end

    def less(counts, before)
      counts = counts.map { |site, born| [site, born - before.fetch(site, 0)] } if before
      # An object that has become another's kind left an empty row.
      counts.reject { |_, born| born.zero? }.to_h
    end

    # Asks what sites are. A class that has no name yet may have one next time.
    def learn(sites)
      @unnamed = {}
      return if sites.empty?

      sites.each { |site| @names[site] = nil }
      @companion.ask("\"do\":\"sites\",\"numbers\":#{JSON.generate(sites)}") do |record|
        place = record.values_at(:path, :line, :type)
        place.last.start_with?("#<") ? @unnamed[record[:site]] = place : @names[record[:site]] = place
      end
      @unnamed.each_key { |site| @names.delete(site) }
    rescue Exception # rubocop:disable Lint/RescueException
      # Half an answer is none.
      @names = {}
      raise
    end
  end
end
