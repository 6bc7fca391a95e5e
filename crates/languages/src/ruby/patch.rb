# What `lancet patch ruby:…` has the VM evaluate: a lambda that is called with what to do, a target, a path, a text and an id.
# It answers with a string: fields are separated by U+001F, records by U+001E, and the first field says how it went.
->(what, target, path, text, id) do
  field, record = "\u001f", "\u001e"
  # Without Array#join, whose C function may itself be replaced.
  chain = ->(words, between) { words.inject { |text, word| "#{text}#{between}#{word}" } || "" }
  plain = ->(word) { word.to_s.scrub("?").tr("\u001e\u001f\n", "  ").strip }
  say = ->(*words) { chain.call(words.map(&plain), field) }
  refused = Class.new(StandardError)
  all_patches = -> { defined?($lancet_patches) && $lancet_patches || [] }
  keep = ->(patches) { $lancet_patches = patches.empty? ? nil : patches }

  # Asks an object of the program something by the VM's own method: it may have others of these names (`send`, `name`, `inspect`).
  ask = ->(module_or_class, name, *words) { Module.instance_method(name).bind_call(module_or_class, *words) }
  # The methods that a class or module has of its own, each with who may call it.
  own = ->(holder) do
    %i[public protected private].flat_map do |who|
      ask.call(holder, "#{who}_instance_methods", false).map { |name| [name, [ask.call(holder, :instance_method, name), who]] }
    end.to_h
  end
  present = ->(holder, name) do
    own.call(holder)[name]
  end
  put = ->(holder, name, method, who) do
    if method
      ask.call(holder, :define_method, name, method)
      ask.call(holder, who, name)
    else
      ask.call(holder, :remove_method, name)
    end
  end
  quiet = ->(&work) do
    loud, $VERBOSE = $VERBOSE, nil
    begin
      work.call
    ensure
      $VERBOSE = loud
    end
  end
  # Puts back what `before` had and `holder` has not any more; what was changed, with what it is now.
  changes = ->(before) do
    before.flat_map do |holder, methods|
      now = own.call(holder)
      (now.keys | methods.keys).map do |name|
        [holder, name, *(methods[name] || [nil, nil]), now[name] && now[name].first] if methods[name] != now[name]
      end.compact
    end
  end
  in_force = ->(patch) do
    patch[:changes].all? do |holder, name, _, _, new|
      now = present.call(holder, name)
      new ? now && now.first == new : now.nil?
    end
  end

  # Whether a call of what a file defines may not have ended: in a thread, or in a fiber that stands.
  may_run = ->(path) do
    backtrace = Thread.instance_method(:backtrace)
    inside = ->(one) { (backtrace.bind_call(one) || []).any? { |line| line.start_with?("#{path}:") } }
    next true if Thread.list.any?(&inside)
    # Before Ruby 3.1 these two are there only where `fiber` was loaded.
    alive = Fiber.method_defined?(:alive?) && Fiber.instance_method(:alive?)
    current = Fiber.respond_to?(:current) && Fiber.current
    fibers = ObjectSpace.each_object(Fiber).select { |fiber| (!alive || alive.bind_call(fiber)) && !current.equal?(fiber) }
    # Before Ruby 3.0 fibers do not say where they stand.
    next fibers.any? unless Fiber.method_defined?(:backtrace)
    backtrace = Fiber.instance_method(:backtrace)
    fibers.any?(&inside)
  end
  # Takes out the methods that the file has added, and the patch itself, unless a call may still need them.
  forget = ->(patch) do
    next false if patch[:added].any? && may_run.call(patch[:path])
    quiet.call { patch[:added].each { |holder, name, _, _, new| put.call(holder, name, nil, nil) if present.call(holder, name)&.first == new } }
    keep.call(all_patches.call.reject { |one| one.equal?(patch) })
    true
  end

  find = -> do
    holder, dot, name = target.match(/\A(.+?)([#.])([^#.]+)\z/)&.captures
    Kernel.raise refused, "write it as Class#method or Class.method" unless holder
    scopes, names = [], []
    holder.split("::").reject(&:empty?).each do |word|
      Kernel.raise refused, "#{word} is no constant's name" unless /\A[[:upper:]]\w*\z/.match?(word)
      scope = scopes.last || Object
      inherit = scopes.empty?
      Kernel.raise refused, "there is no constant #{chain.call([*names, word].last(2), '::')}" unless ask.call(scope, :const_defined?, word, inherit)
      Kernel.raise refused, "#{word} has not been loaded yet (autoload)" if ask.call(scope, :autoload?, word)
      value = ask.call(scope, :const_get, word, inherit)
      Kernel.raise refused, "#{word} is no class or module" unless Module === value
      scopes << value
      names << word
    end
    home = dot == "#" ? scopes.last : ask.call(scopes.last, :singleton_class)
    begin
      old = ask.call(home, :instance_method, name)
    rescue NameError
      Kernel.raise refused, "it has no method #{name}"
    end
    if old.source_location.nil?
      Kernel.raise refused, "the method is written in C: name its C function instead (lancet patch FUNCTION=FILE.so:NEW)"
    end
    front = ask.call(home, :ancestors).take_while { |one| !ask.call(one, :equal?, home) }
    if front.any? { |one| ask.call(one, :equal?, old.owner) }
      owner = ask.call(old.owner, :inspect)
      Kernel.raise refused, "the module #{owner}, which is prepended, defines it: name #{owner}##{name}"
    end
    Kernel.raise refused, "#{ask.call(home, :inspect)} is frozen" if ask.call(home, :frozen?)
    [scopes, home, name.to_sym, old]
  end

  check = -> do
    quiet.call { RubyVM::InstructionSequence.compile(text, path, path) }
  rescue SyntaxError => error
    Kernel.raise refused, error.message.lines.map(&:strip).reject(&:empty?).first(2).then { |lines| chain.call(lines, " ") }
  end

  apply = -> do
    scopes, home, name, old = find.call
    check.call
    patches = all_patches.call
    number = (patches.map { |patch| patch[:id] }.max || 0) + 1
    # By this name it calls the old method.
    original = "lancet_original_s#{number}"
    named = text.gsub(/\blancet_original\b/, original)
    # The text stands in the bodies of the classes that its method is in, so that it sees the same constants; what it says
    # about itself in comments at its beginning stays there.
    notes = text.lines.take_while { |line| line.start_with?("#") }
    bodies = scopes.zip(target.split(/[#.]/).first.split("::").reject(&:empty?)).map.with_index do |(scope, word), at|
      "#{Class === scope ? 'class' : 'module'} #{'::' if at.zero?}#{word}"
    end
    source = "#{chain.call(notes, '')}#{chain.call(bodies, '; ')}\n#{named}\n#{'end; ' * bodies.size}"
    holders = [scopes.last, ask.call(scopes.last, :singleton_class)]
    before = holders.map { |holder| [holder, own.call(holder)] }
    owned = before.find { |holder,| ask.call(home, :equal?, holder) }.last[name]
    who = owned ? owned.last : %i[private protected].find { |one| ask.call(home, "#{one}_method_defined?", name) } || :public
    failed = nil
    begin
      unless named == text
        ask.call(home, :alias_method, original, name)
        ask.call(home, :private, original)
      end
      quiet.call { Kernel.eval(source, TOPLEVEL_BINDING, path, -notes.size) }
      now = present.call(home, name)
      if now.nil? || owned && now.first == owned.first
        said = ask.call(home, :equal?, scopes.last) ? name : "self.#{name}"
        failed = "#{path} does not define it: it has no `def #{said}`"
      end
    rescue Exception => error # rubocop:disable Lint/RescueException: put back what is half done, whatever it was
      at = (Exception.instance_method(:backtrace).bind_call(error) || []).find { |line| line.start_with?(path) }
      failed = "#{at && "#{at.split(':in').first}: "}#{error.message} (#{ask.call(Kernel.instance_method(:class).bind_call(error), :name)})"
      # A signal or an exit that was meant for the program, not for us.
      Thread.new { Thread.main.raise(error) } if SignalException === error || SystemExit === error
    end
    changed = changes.call(before)
    if failed
      quiet.call { changed.each { |holder, one, method, visible, _| put.call(holder, one, method, visible) } }
      Kernel.raise refused, failed
    end
    ask.call(home, who, name)
    changed = changes.call(before)
    old_at = chain.call(old.source_location, ":")
    # What the file adds beside its method may be needed by calls that still run when it is taken back.
    added, replaced = changed.partition { |holder, one, method,| method.nil? && !(ask.call(home, :equal?, holder) && one == name) }
    defined = changed.size - (named == text ? 0 : 1)
    keep.call(patches + [{ id: number, target: target, path: path, old: old_at, defined: defined, changes: replaced, added: added, ends: false }])
    ["done", number, target, path, old_at, defined]
  end

  undo = -> do
    patches = all_patches.call
    patch = patches.find { |one| one[:id] == id }
    Kernel.raise refused, "there is no patch s#{id}" unless patch
    Kernel.raise refused, "it is taken back already, and calls of it still run" if patch[:ends]
    unless in_force.call(patch)
      same = ->(a, b) { a[1] == b[1] && ask.call(a[0], :equal?, b[0]) }
      later = patches.reverse.find { |one| one[:id] > id && !one[:ends] && one[:changes].any? { |change| patch[:changes].any?(&same.curry[change]) } }
      Kernel.raise refused, "the method was changed since#{later ? ", by patch s#{later[:id]}: take that back first" : ' by the program itself'}"
    end
    quiet.call { patch[:changes].each { |holder, name, method, who, _| put.call(holder, name, method, who) } }
    patch[:ends] = true
    [forget.call(patch) ? "done" : "ends", id, patch[:target], patch[:path], patch[:old], 0]
  end

  list = -> do
    rows = all_patches.call.map do |patch|
      state = patch[:ends] ? "ends" : in_force.call(patch) ? "in force" : "covered"
      [state, patch[:id], patch[:target], patch[:path], patch[:old], patch[:defined]]
    end
    ["done", *rows]
  end

  answer = nil
  # What other threads raise here (Timeout, Thread#raise) is raised when this is done.
  Thread.handle_interrupt(Object => :never) do
    begin
      all_patches.call.select { |patch| patch[:ends] }.each(&forget)
      found = case what
              when "apply" then [apply.call]
              when "undo" then [undo.call]
              when "list" then list.call.drop(1).unshift(["done"])
              else
                _, _, _, old = find.call
                check.call
                [["done", 0, target, path, chain.call(old.source_location, ":"), 0]]
              end
      answer = chain.call(found.map { |words| say.call(*words) }, record)
    rescue refused => error
      answer = say.call("refused", error.message)
    rescue StandardError, ScriptError => error
      answer = say.call("refused", "#{error.message} (#{ask.call(Kernel.instance_method(:class).bind_call(error), :name)})")
    end
  end
  answer
end
