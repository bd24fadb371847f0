import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { CreateError, copyExample, type Example, examplesIn } from './create.ts'

const USAGE = `npm create onceward [folder] -- [--example NAME] [--packages FOLDER]

  folder             where the project goes; default: a new folder with the name of the example
  --example NAME     which example to copy; without it you are asked
  --packages FOLDER  install onceward from the .tgz files in FOLDER, not from npm`

const OPTIONS = {
  example: { type: 'string' },
  packages: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true })
  } catch (error) {
    throw new CreateError(`${(error as Error).message}\n\n${USAGE}`)
  }
}

const listed = (examples: readonly Example[]): string => {
  const width = Math.max(...examples.map(({ name }) => name.length))
  return examples
    .map(({ name, description }, index) => `${index + 1}. ${name.padEnd(width)}  ${description}`)
    .join('\n')
}

/** Asks until the answer is an example, by number or by name. */
async function ask(examples: readonly Example[]): Promise<Example> {
  const { stdin: input, stdout: output } = process
  if (!input.isTTY) throw new CreateError(`Name one with --example:\n${listed(examples)}`)
  output.write(`${listed(examples)}\n`)
  const terminal = createInterface({ input, output, prompt: 'Which one? ' })
  try {
    terminal.prompt()
    for await (const line of terminal) {
      const isChosen = ({ name }: Example, index: number): boolean =>
        [name, `${index + 1}`].includes(line.trim())
      const chosen = examples.find(isChosen)
      if (chosen !== undefined) return chosen
      terminal.prompt()
    }
  } finally {
    terminal.close()
  }
  // Ctrl-C or Ctrl-D.
  throw new CreateError('\nNothing was created.')
}

function named(name: string, examples: readonly Example[]): Example {
  const found = examples.find((example) => example.name === name)
  if (found !== undefined) return found
  throw new CreateError(`There is no example "${name}". These are there:\n${listed(examples)}`)
}

/** @param directory - Where the examples are. */
export async function main(args: readonly string[], directory: string): Promise<void> {
  const { values, positionals } = parse(args)
  if (values.help) {
    process.stdout.write(`${USAGE}\n\n${listed(examplesIn(directory))}\n`)
    return
  }
  if (positionals.length > 1)
    throw new CreateError(`One folder, please, not ${positionals.length}.\n\n${USAGE}`)
  const examples = examplesIn(directory)
  const example =
    values.example === undefined ? await ask(examples) : named(values.example, examples)
  const folder = positionals[0] ?? example.name
  copyExample(example, folder, values.packages)
  process.stdout.write(`Copied ${example.name} to ${folder}. Next:

  cd ${folder} && npm install
  docker compose up --detach --wait
  npm test

The README there says what to try then, and how it runs without Docker.
`)
}
