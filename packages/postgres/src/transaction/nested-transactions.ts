import { type OncewardError, RetryableError } from '@onceward/core'
import { refusedControl } from './refusing-handle.ts'
import {
  OWN_SAVEPOINT,
  type TransactionControl,
  transactionControls,
} from './transaction-control.ts'

/** A text of the handler as it is sent. */
export interface MappedText {
  readonly text: string
  /** Whether the handler sent one statement, and expects its answer. */
  readonly isAlone: boolean
  /** Called when the text has failed. */
  readonly failed: () => void
}

/**
 * The transactions that a handler begins on a client, as savepoints of the transaction that it runs in. ORMs send `begin`
 * and `commit` on the client that they are given.
 */
export class NestedTransactions {
  /** How many are open: their savepoints are numbered. */
  #depth = 0

  /**
   * Maps the transaction control of a text. Undefined if it has none.
   *
   * @param isBusy - Whether a statement of the handler is running.
   */
  map(text: string, isBusy: () => boolean): MappedText | OncewardError | undefined {
    const controls = transactionControls(text)
    if (controls.length === 0) return undefined
    const before = this.#depth
    const mapped: (readonly string[])[] = []
    let depth = before
    let deepest = before
    for (const control of controls) {
      const error = refusal(control, depth)
      if (error !== undefined) return error
      if (control.kind === 'begin' && isBusy()) return new RetryableError(AT_ONCE)
      const level = control.kind === 'begin' ? depth + 1 : depth
      mapped.push(statements(control, `${OWN_SAVEPOINT}${level}`))
      depth = control.kind === 'begin' ? level : depth - 1
      deepest = Math.max(deepest, depth)
    }
    this.#depth = depth
    const isAlone = controls[0]?.isAlone === true
    // How many of several statements were executed is not known. What may be open is what the handler may roll back.
    const failed = (): void => this.#set(isAlone ? before : deepest)
    return { text: replaced(text, controls, mapped), isAlone, failed }
  }

  #set(depth: number): void {
    this.#depth = depth
  }

  /** Why a handler that has returned must not be committed. */
  leftOpen(thrown: unknown): OncewardError | undefined {
    const isLeft = thrown === undefined && this.#depth > 0
    return isLeft ? new RetryableError(LEFT_OPEN) : undefined
  }
}

const LEFT_OPEN =
  'The handler returned inside of a transaction that it had begun itself. Send `commit` or `rollback` for each `begin`, and await it.'
const AT_ONCE =
  'The handler sent `begin` while another statement of its client was running, so the two would share one savepoint. Await each statement, and run nested transactions one after the other.'
const OWN_NAMES = `The handler may not use savepoints whose names begin with \`${OWN_SAVEPOINT}\`: they are those of onceward. Choose another name.`

function refusal(control: TransactionControl, depth: number): OncewardError | undefined {
  const { kind, words, isolated } = control
  if (kind === 'own-name') return new RetryableError(OWN_NAMES)
  if (kind === 'other' || (kind !== 'begin' && depth === 0)) return refusedControl(words)
  if (!isolated) return undefined
  return new RetryableError(
    `The handler may not choose an isolation level with \`${words}\`: its transaction has begun. Leave the level out, or set the option \`isolation\` of the inbox.`,
  )
}

function statements({ kind, readOnly }: TransactionControl, name: string): readonly string[] {
  switch (kind) {
    case 'begin':
      return [`savepoint ${name}`, ...(readOnly ? ['set transaction read only'] : [])]
    case 'commit':
      return [`release savepoint ${name}`]
    default:
      // Without the release, each transaction that is rolled back would leave a savepoint.
      return [`rollback to savepoint ${name}`, `release savepoint ${name}`]
  }
}

function replaced(
  text: string,
  controls: readonly TransactionControl[],
  mapped: readonly (readonly string[])[],
): string {
  let [answer, at] = ['', 0]
  for (const [index, { start, end }] of controls.entries()) {
    answer += text.slice(at, start) + (mapped[index] ?? []).join('; ')
    at = end
  }
  return answer + text.slice(at)
}
