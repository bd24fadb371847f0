import { type OncewardError, RetryableError } from '@onceward/core'
import { transactionControl } from './transaction-control.ts'

/** Whether a handle still works: asked before every statement. The first error of a kind stays. */
export class HandleGate {
  #closed: (() => OncewardError) | undefined
  #revoked: OncewardError | undefined

  /**
   * New statements are refused; those that wait for others before them still run. Every transaction ends so, and an
   * error costs as much as a statement: it is made when one is refused.
   */
  close(refusal: () => OncewardError): void {
    this.#closed ??= refusal
  }

  /** No statement begins any more. */
  revoke(error: OncewardError): void {
    this.#revoked ??= error
  }

  get revoked(): OncewardError | undefined {
    return this.#revoked
  }

  /** Why a new statement is refused; undefined when it may go. */
  refusal(text: string | undefined): OncewardError | undefined {
    const error = this.#revoked ?? this.#closed?.()
    if (error !== undefined) return error
    return text === undefined ? undefined : refusedControl(text)
  }
}

/** Why transaction control is refused. */
export function refusedControl(text: string): OncewardError | undefined {
  const control = transactionControl(text)
  if (control === undefined) return undefined
  return new RetryableError(
    `The handler may not send \`${control}\`: onceward begins and ends this transaction, with the event's row in it. Use a savepoint, or throw to roll back.`,
  )
}
