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

      def initialize(records, result, said)
        @records = records
        @result = result
        @said = said
      end

      def each(&block)
        records.each(&block)
      end

      def size
        records.size
      end
    end

    # Those of the guest's acts that a watch is about.
    EVENTS = %w[call syscall row total signal fork].freeze
    OURS = "#{File.expand_path("..", __dir__)}/"
    private_constant :EVENTS, :OURS

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

        companion, begun = Companion.begin("\"do\":\"watch\"," + arguments(command, words))
        watch = begun.fetch(:watch)
        begin
          result = yield
          records, ended = finish(companion, watch)
          watch = nil
          Seen.new(records.select { |record| shown?(record) }, result, ended.fetch(:said))
        ensure
          finish(companion, watch) if watch && !companion.over?
        end
      end

      # The records of a command that ends by itself.
      def run(command, words)
        records = []
        _, ended = Companion.begin("\"do\":\"run\"," + arguments(command, words)) { |record| records << record }
        # 3: a limit was exceeded that was asked for; 4: it is done, and something is missing.
        return records if [0, 3, 4].include?(ended.fetch(:exit))

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

      # Whether a record is of the program, and not of what this library does to ask.
      def shown?(record)
        return false unless EVENTS.include?(record[:record])

        lines = record.values_at(:line, :library).grep(Hash)
        lines.none? { |line| line[:path].to_s.start_with?(OURS) }
      end
    end
  end
end
