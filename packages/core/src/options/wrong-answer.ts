import { ConfigurationError } from '../model/errors.ts'
import { shown } from '../support/shown.ts'

const EXPECTED: Readonly<Record<'skip' | 'schema' | 'fingerprint' | 'onTakeover', string>> = {
  skip: 'true or false',
  fingerprint:
    'a text, a number, or lists and plain objects of them (the JSON of a Map, a FormData or an ArrayBuffer is empty)',
  schema: '`{ value }` or `{ issues: [...] }`, as Standard Schema defines them',
  onTakeover: "`{ kind: 'done' }`, `{ kind: 'retry' }` or `{ kind: 'dead-letter' }`",
}

/**
 * A user's function answered what no message can cause: the code is wrong and not the message, so the message is
 * retried. A new version of the code can run it.
 */
export class WrongAnswerError extends ConfigurationError {
  static override readonly name: string = 'ConfigurationError'
  readonly option: keyof typeof EXPECTED

  constructor(option: keyof typeof EXPECTED, answer: unknown) {
    super(
      `Expected \`${option}\` to answer ${EXPECTED[option]}, got ${answered(answer)}. Fix the function; its messages are retried meanwhile.`,
    )
    this.option = option
  }
}

/** Never shows what is inside of an object: it may be part of a message. */
function answered(answer: unknown): string {
  if (answer === null) return 'null'
  if (typeof answer === 'boolean' || typeof answer === 'number') return shown(String(answer))
  if (typeof answer !== 'object') return `a value of type ${typeof answer}`
  return answer instanceof Promise ? 'a promise' : 'another object'
}
