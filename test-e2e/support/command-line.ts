import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/** The command line is wrong. The message says all that the user needs, so no stack is printed. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

type Values<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ args: string[]; options: Options & typeof HELP }>
>['values']

const HELP = { help: { type: 'boolean', default: false } } as const

/** @throws {@link UsageError} with the usage, also for `--help`. */
export function parseValues<const Options extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Options,
  usage: string,
): Values<Options> {
  let values: Values<Options>
  try {
    ;({ values } = parseArgs({ args: [...args], options: { ...options, ...HELP } }))
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${usage}`)
  }
  if (Reflect.get(values, 'help') === true) throw new UsageError(usage)
  return values
}

/** @throws {@link UsageError} */
export function integer(
  name: string,
  text: string,
  [least, most]: readonly [number, number],
): number {
  const value = Number(text)
  if (text !== '' && Number.isInteger(value) && value >= least && value <= most) return value
  throw new UsageError(`Expected ${name} to be an integer from ${least} to ${most}, got ${text}`)
}
