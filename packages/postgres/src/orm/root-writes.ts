import { AsyncLocalStorage } from 'node:async_hooks'
import type { ConsumerRegistration, HandlerTurn } from '@onceward/core/ports'
import type { Driver } from '../driver/driver.ts'
import { shown } from '../transaction/handler-statements.ts'
import { statementTokens } from '../transaction/statement-tokens.ts'
import { aroundHandlers, type ToAround } from './around-handlers.ts'

/** What a library shows of the statements that are sent with its root handle. */
export interface RootWatch<Tx> {
  /**
   * Calls back before each write, also for those of transactions, until it is stopped.
   *
   * @param seen - Gets the text if it is known, and what {@link markOf} tells of the transaction that it is sent in.
   */
  listen(seen: (text: string | undefined, mark: unknown) => void): () => void
  /** What the statements of the handler's transaction have, and no others. */
  markOf(tx: Tx): unknown
}

interface Run {
  readonly mark: unknown
  readonly eventId: string | undefined
}

const WROTE =
  'a handler wrote outside of its transaction, so the write stays when the run fails and is repeated when the event runs again: write with tx, or give tx to the service that wrote'

export interface WatchParts<Inner, Tx> {
  readonly toAround: ToAround<Inner, Tx>
  readonly rootWatch: RootWatch<Tx>
  readonly registration: Pick<ConsumerRegistration, 'consumer' | 'logger'>
}

/** A driver that warns of the first write of a guard's handlers that is outside of their transactions. */
export function warningOfRootWrites<Inner, Tx>(
  driver: Driver<Inner>,
  { registration, rootWatch, toAround }: WatchParts<Inner, Tx>,
): Driver<Tx> {
  const { consumer, logger } = registration
  const runs = new AsyncLocalStorage<Run>()
  let isOver = false
  const stop = (): void => {
    isOver = true
    // Later: a library may go through its listeners now.
    queueMicrotask(stopListening)
  }
  const stopListening = rootWatch.listen((text, mark) => {
    const run = runs.getStore()
    if (isOver || run === undefined || run.mark === mark) return
    stop()
    const statement = text === undefined ? undefined : shown(text)
    logger.warn({ consumer, eventId: run.eventId, statement }, WROTE)
  })
  const watching: ToAround<Inner, Tx> = (inner, context) => {
    const around = toAround(inner, context)
    const { tx } = around
    const run = (handler: () => unknown, { eventId }: HandlerTurn): unknown =>
      isOver ? handler() : runs.run({ mark: rootWatch.markOf(tx), eventId }, handler)
    return {
      ...{ tx, isAmbient: around.isAmbient === true },
      run: (handler, turn) => around.run(() => run(handler, turn), turn),
      ended: (isCommitted) => around.ended?.(isCommitted) ?? Promise.resolve(),
    }
  }
  const close = async (): Promise<void> => {
    stop()
    await driver.close?.()
  }
  return { ...aroundHandlers(driver, watching), close }
}

const WRITES = new Set(['insert', 'update', 'delete', 'merge', 'truncate', 'copy'])

/** Whether a text changes rows. A function that does is not known. */
export function isWrite(text: string): boolean {
  let before = ''
  for (const token of statementTokens(text, false)) {
    if (WRITES.has(token) && before !== 'for') return true
    if (before === '' && token !== 'with' && token !== '(') return false
    before = token
  }
  return false
}
