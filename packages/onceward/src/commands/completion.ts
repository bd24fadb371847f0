import type { Command } from 'commander'
import { Argument } from 'commander'
import { EXIT } from '../exit-codes.ts'
import { commandGroup, type End } from './command.ts'

export function completionCommand(end: End, program: Command): Command {
  const made = commandGroup({
    name: 'completion',
    summary: 'Print the completions of bash or zsh',
    rights: 'none; no database is asked.',
    examples: [
      'completion bash > ~/.local/share/bash-completion/completions/onceward',
      'completion zsh > ~/.zfunc/_onceward   # a directory of fpath',
    ],
  })
  return made
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh']))
    .action((shell: 'bash' | 'zsh') => {
      process.stdout.write(shell === 'bash' ? bash(program) : zsh(program))
      end(EXIT.ok)
    })
}

interface Words {
  /** Names of the commands before, such as `dead-letters list`. */
  readonly path: string
  readonly words: readonly string[]
}

/** For each command the words that may follow it. */
function wordsOf(made: Command, path = ''): readonly Words[] {
  const options = made.options.flatMap(({ long }) => (long == null ? [] : [long]))
  const choices = made.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])
  const names = made.commands.map((each) => each.name())
  const below = made.commands.flatMap((each) =>
    wordsOf(each, path === '' ? each.name() : `${path} ${each.name()}`),
  )
  return [{ path, words: [...names, ...choices, ...options, '--help'] }, ...below]
}

/** The commands of a line, without options: the longest known path wins. */
const PATH = `local place='' word
  for word in "\${before[@]}"; do
    case "$place $word" in
      PATHS) place="$place $word";;
    esac
  done`

function body(program: Command): { readonly paths: string; readonly cases: string } {
  const all = wordsOf(program)
  const paths = all.filter(({ path }) => path !== '').map(({ path }) => `' ${path}'`)
  const cases = all.map(({ path, words }) => {
    const pattern = path === '' ? "''" : `' ${path}'`
    return `    ${pattern}) words=${`'${words.join(' ')}'`};;`
  })
  return { paths: PATH.replace('PATHS', paths.join('|')), cases: cases.join('\n') }
}

function bash(program: Command): string {
  const { cases, paths } = body(program)
  return `_onceward() {
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}") words=''
  ${paths}
  case "$place" in
${cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _onceward onceward
`
}

function zsh(program: Command): string {
  const { cases, paths } = body(program)
  return `#compdef onceward
_onceward() {
  local before=("\${words[@]:1:$((CURRENT - 2))}") known=''
  ${paths}
  case "$place" in
${cases.replaceAll(') words=', ') known=')}
  esac
  compadd -- \${=known}
}
compdef _onceward onceward
`
}
