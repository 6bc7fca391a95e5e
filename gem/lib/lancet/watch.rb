# frozen_string_literal: true

require_relative "companion"

module Lancet
  # The commands of `lancet` that watch this process, and what they have seen as Ruby objects.
  module Watch
    # What the command has seen while the block ran.
    class Seen
      include Enumerable

      # Hashes with the names of the command's JSON.
      attr_reader :records

      # What the block has returned.
      attr_reader :result

      # What the command has said: how many functions are hooked, what was lost.
      attr_reader :said

      # What may be missing among the records, a sentence each.
      attr_reader :lost

      def initialize(records, result, said, lost = [], nowhere: false)
        @records = records
        @result = result
        @said = said
        @lost = lost
        @nowhere = nowhere
      end

      # Whether nothing of what was asked for was ever in the process, so that there was nothing to see.
      def nowhere?
        @nowhere
      end

      def each(&block)
        records.each(&block)
      end

      def size
        records.size
      end
    end

    # What a command tells beside what it has seen: of the process, of what was found in sentences, and of what was lost.
    BESIDE = %w[process end losses verdict].freeze
    # What a table of counts adds up.
    SUMS = %w[total sum].freeze
    # Exit codes of one that has done its work. 3: a limit was exceeded that was asked for; 4: something is missing.
    DONE = [0, 3, 4].freeze
    OURS = "#{File.expand_path("..", __dir__)}/"
    OF_PARENT = "this process was forked within the block: what the block has done is its parent's to tell"
    private_constant :OF_PARENT, :BESIDE, :SUMS, :DONE, :OURS

    class << self
      # Options of a method as those of a command line: `min_time: "1ms"`, `follow_forks: true`, `c: true`.
      def words(options)
        options.flat_map do |name, value|
          flag = name.size == 1 ? "-#{name}" : "--#{name.to_s.tr("_", "-")}"
          Array(value).flat_map do |one|
            case one
            when true then [flag]
            when false, nil then []
            else [flag, one.to_s]
            end
          end
        end
      end

      # Watches until the block has returned.
      def during(command, words)
        raise ArgumentError, "block required" unless block_given?

        begin
          companion, begun = Companion.begin("\"do\":\"watch\"," + arguments(command, words))
          watch = begun.fetch(:watch)
          result = yield
          return Seen.new([], result, [], [OF_PARENT]) if companion.forked?

          records, ended = finish(companion, watch)
          watch = nil
          seen(command, records, ended, result)
        ensure
          drop(companion, watch) if watch
        end
      end

      # The records of a command that ends by itself.
      def run(command, words)
        records = []
        _, ended = Companion.begin("\"do\":\"run\"," + arguments(command, words)) { |record| records << record }
        return records if DONE.include?(ended.fetch(:exit))

        said = ended.fetch(:said)
        raise Error, said.empty? ? "lancet #{command} was ended before it had done its work" : said.join("; ")
      end

      # How a command has ended that writes its result into a file: its exit code and what it has said.
      def ended(command, words)
        _, ended = Companion.begin("\"do\":\"run\"," + arguments(command, words))
        ended
      end

      private

      def arguments(command, words)
        "\"command\":\"#{command}\",\"words\":#{Companion.list(words)}"
      end

      def finish(companion, watch)
        records = []
        ended = companion.ask("\"do\":\"finish\",\"watch\":#{watch}") { |record| records << record }
        [records, ended]
      end

      # Ends a watch whose block was left otherwise. What the program raises, or how it ends, is not replaced by an error of ours.
      def drop(companion, watch)
        finish(companion, watch) unless companion.over?
      rescue Error
        nil
      end

      def seen(command, records, ended, result)
        said = ended.fetch(:said)
        unless DONE.include?(ended.fetch(:exit))
          raise Lost, ["lancet #{command} was ended before its block, and what it had seen is not all", *said].join(": ")
        end

        losses = records.select { |record| record[:record] == "losses" }
        lost, nowhere = missing(losses, ended)
        Seen.new(without_ours(records), result, said, lost, nowhere: nowhere)
      end

      # What a command says that it has lost; whether nothing of what was asked for was ever there.
      def missing(losses, ended)
        told = losses.flat_map { |record| record[:losses] }
        nowhere, told = told.partition { |loss| loss[:what] == "hooks" && loss[:pid].nil? }
        lost = told.map { |loss| loss[:text] }
        more = losses.sum { |record| record[:more] }
        lost << "#{more} more losses" if more.positive?
        lost << "#{ended[:lost]} records found no room" if ended.fetch(:lost).positive?
        lost.concat(ended.fetch(:said)) if losses.empty? && ended.fetch(:exit) == 4
        [lost, !nowhere.empty?]
      end

      # Records of the program's acts, and not of what this library does to ask; sums are those of the rest.
      def without_ours(records)
        ours, shown = records.reject { |record| BESIDE.include?(record[:record]) }.partition { |record| ours?(record) }
        shown.each do |sum|
          next unless SUMS.include?(sum[:record])

          sum.each_key { |name| sum[name] -= ours.sum { |row| row.fetch(name, 0) } if sum[name].is_a?(Integer) }
        end
      end

      def ours?(record)
        record.values_at(:place, :library).any? { |place| place && place[:path].to_s.start_with?(OURS) }
      end
    end
  end
end
