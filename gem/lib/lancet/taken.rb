# frozen_string_literal: true

module Lancet
  # Signatures that some process of this user's has taken on this machine, as empty files of a folder that nobody else can reach: of several workers of a server
  # one takes a signature. The wheel for Python has the same folder. Where there can be none, each process remembers its own alone; where it
  # is another's, no signature is good.
  module Taken
    # Files of signatures that have no time left are removed now and then: at every so many.
    TIDIED_EVERY = 256
    private_constant :TIDIED_EVERY

    @count = 0

    class << self
      # Takes a signature that is good until a second of the clock; false if another process has done so.
      def take(signature, until_then, now)
        found = folder
        # nil: there can be none.
        return found.nil? unless found

        File.open(name(found, signature, until_then), File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW, 0o600) { nil }
        tidy(found, now) if (@count += 1) % TIDIED_EVERY == 1
        true
      rescue SystemCallError
        # Another process has taken it, or nobody could know that this one does.
        false
      end

      def give_back(signature, until_then)
        found = folder
        File.unlink(name(found, signature, until_then)) if found
      rescue SystemCallError
        nil
      end

      private

      def name(folder, signature, until_then)
        File.join(folder, "#{until_then}-#{signature}")
      end

      # The folder, if it is ours and closed to others; false if it is not, because the name is one that anybody could take first; nil if there can be none.
      def folder
        path = File.join(ENV["TMPDIR"] || "/tmp", "lancet-signed-#{Process.euid}")
        begin
          Dir.mkdir(path, 0o700)
        rescue Errno::EEXIST
          # By another process, or before.
        rescue Errno::EROFS, Errno::EACCES, Errno::EPERM, Errno::ENOENT, Errno::ENOTDIR
          return nil
        end
        seen = File.lstat(path)
        return path if seen.directory? && seen.owned? && (seen.mode & 0o077).zero?

        @told ||= warn("lancet: #{path} is not this user's alone: no signed request is traced; remove it, or set TMPDIR") || true
        false
      end

      def tidy(folder, now)
        Dir.each_child(folder) { |file| remove(File.join(folder, file)) if file.to_i < now }
      rescue SystemCallError
        # The folder is gone.
        nil
      end

      def remove(path)
        File.unlink(path)
      rescue SystemCallError
        # Another process has removed it first, or it cannot be.
        nil
      end
    end
  end
end
