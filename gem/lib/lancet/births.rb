# frozen_string_literal: true

require_relative "block"
require_relative "companion"

module Lancet
  # Objects that one thread makes, counted apart from those of all others. The companion gives a thread its account once; from then on the
  # thread begins, reads and ends it itself, by methods of the agent's: crates/agent/src/births/door.rs says what they answer.
  class Births
    GONE = "what was counted is gone: the agent has left"
    private_constant :GONE

    # Where objects are made: a line and a type. Each thread has its own.
    Place = Struct.new(:path, :line, :type) do
      # A row of JSON: so many objects were made there. The last one is kept, because a request makes as many as the one before.
      def json(born)
        return @json if @born == born

        @named ||= "{\"file\":#{JSON.generate(path)},\"line\":#{line},\"type\":#{JSON.generate(type)},\"count\":"
        @born = born
        @json = "#{@named}#{born}}"
      end
    end

    # What a thread has made at the end of a stretch: sites and births in turns, until somebody asks what the sites are. Not those of this gem, and
    # of what Ruby does not show.
    Made = Struct.new(:births, :counts, :lost) do
      # Each place and how many objects were made there, the most first.
      def places
        @places ||= births.places(counts).sort_by! { |_, born| -born }
      end

      def rows
        @rows ||= places.map { |place, born| Row.new(place.path, place.line, place.type, 0, born) }
      end

      def count
        @count ||= @places ? @places.sum(&:last) : births.count(counts)
      end

      # How many of each type, those of the line with the most first.
      def types
        types = {}
        places.each { |place, born| types[place.type] = born + types.fetch(place.type, 0) }
        types
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

      # The module with the agent's methods; nil before there is an agent.
      attr_reader :door

      # Called by the agent, which defines its methods in the module: one of their own for each agent that comes.
      def new_door
        @door = Module.new
      end
    end

    def initialize
      @owner = Process.pid
      @tid = Integer(File.readlink("/proc/thread-self")[/\d+\z/])
      @depth = 0
      @quiet = false
      @companion = nil
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
      found = read
      lost = found.shift
      lost -= before.first if before
      Made.new(self, less(found, before), lost)
    ensure
      @depth -= 1
      stop if @depth.zero?
    end

    # What the block makes is of no stretch: it reports one.
    def quietly
      return yield if @depth.zero? || @quiet

      begin
        @quiet = true
        stop
        yield
      ensure
        @quiet = false
        @door.begin(@number)
      end
    end

    # Places and how many objects were made there, as pairs, of sites and births in turns.
    def places(counts)
      quietly do
        found = []
        each_known(counts) { |place, count| found << [place, count] }
        @doubles ? joined(found) : found
      end
    end

    # How many objects that are.
    def count(counts)
      quietly do
        sum = 0
        each_known(counts) { |_, count| sum += count }
        sum
      end
    end

    private

    def joined(found)
      born = {}.compare_by_identity
      found.each { |place, count| born[place] = count + born.fetch(place, 0) }
      born.to_a
    end

    # Yields those whose place is known and to be told. This is done for each trace that is told: by number, which makes no objects.
    def each_known(counts)
      raise Lost, GONE unless @companion.equal?(Companion.current)

      unnamed = ask_for_unknown(counts)
      at = 0
      while (site = counts[at])
        place = @names[site] || unnamed&.fetch(site, nil)
        yield place, counts[at + 1] if place
        at += 2
      end
    end

    # Learns what sites are that were not seen before; those whose class has no name, which may have one next time.
    def ask_for_unknown(counts)
      unknown = nil
      at = 0
      while (site = counts[at])
        (unknown ||= []) << site if @names[site].nil?
        at += 2
      end
      unknown && learn(unknown)
    end

    def want
      # No account has had this number before.
      @number = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      return if @companion && !@companion.over? && @door.begin(@number)

      take
      raise Lost, GONE unless @door.begin(@number)
    end

    def take
      @companion, = Companion.begin("\"do\":\"account\",\"thread\":#{@tid}")
      @door = Births.door or raise Error, "lancet's agent could not define its methods: is the class Lancet::Births this gem's own?"
      # By number of a site: its place, or false if it is not to be told.
      @names = []
      @places = {}
      # Two sites have the same place, as where a class was given a name that another one has.
      @doubles = false
    end

    def stop
      @door.stop(@number)
    end

    # How many births found no room, and then sites and births, since the outermost stretch has begun.
    def read
      @door.read(@number) or raise Lost, GONE
    end

    def less(counts, before)
      return counts unless before

      before = before.drop(1).each_slice(2).to_h
      counts.each_slice(2).filter_map { |site, born| [site, born - before.fetch(site, 0)] if born != before[site] }.flatten
    end

    def learn(sites)
      unnamed = {}
      told = {}
      @companion.ask("\"do\":\"sites\",\"numbers\":[#{sites.join(",")}]") do |record|
        found = record.values_at(:path, :line, :type)
        @doubles ||= @places.key?(found)
        place = @places[found] ||= Place.new(*found)
        (found.last.start_with?("#<") ? unnamed : told)[record[:site]] = place
      end
      sites.each { |site| @names[site] = told.fetch(site, false) unless unnamed.key?(site) }
      unnamed
    end
  end
end
