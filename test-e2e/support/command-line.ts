import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/** What was asked for cannot be done: its message is all that the user needs. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

type Values<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ args: string[]; options: Options & typeof HELP }>
>['values']

const HELP = { help: { type: 'boolean', default: false } } as const

/** @throws {@link UsageError} with the usage, also where that is what was asked for. */
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
