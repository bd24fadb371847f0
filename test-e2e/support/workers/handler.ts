import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { FatalError, type GuardEvent, type Handler } from '@onceward/core'
import { type Crashes, die } from '../crash/crash.ts'
import type { Order, WorkerConfig } from './protocol.ts'
import { reached } from './worker-channel.ts'

const EFFECT = 'insert into effects (id, worker, attempt) values ($1, $2, $3)'
const CHARGE = 'update balances set cents = cents + $2 where account = $1'

/** Sends a statement in the transaction of an event. Resolves with its rows. */
export type Send = (
  text: string,
  values?: readonly (string | number)[],
) => Promise<readonly unknown[]>

/**
 * An ordinary handler: one insert for each event, and then the deed of its order.
 *
 * @param sendOn - How the handle of the worker's inbox sends a statement.
 */
export function createHandler(
  { name, runsFile }: WorkerConfig,
  crash: Crashes,
  sendOn: (tx: unknown) => Send,
): Handler<Order, unknown> {
  const handle = async (event: GuardEvent<Order>, send: Send): Promise<void> => {
    const { id, takesMs, charge } = event.payload
    await send(EFFECT, [id, name, event.attempt])
    if (charge !== undefined) await send(CHARGE, [charge.account, charge.cents])
    if (takesMs !== undefined) await sleep(takesMs)
    await doDeed(event, send)
    await crash.at('in-transaction', [id])
  }
  return (event, { tx }) => {
    const { id, deed } = event.payload
    appendFileSync(runsFile, `${name} ${id} ${event.attempt}\n`)
    if (deed === 'throw-at-once' && event.attempt === 1) throw new TypeError('no promise was made')
    return handle(event, sendOn(tx))
  }
}

async function doDeed({ payload, attempt }: GuardEvent<Order>, send: Send): Promise<void> {
  const { id, deed } = payload
  switch (deed) {
    case undefined:
    case 'throw-at-once':
      return
    case 'poison':
      return die()
    case 'fail-once':
      if (attempt === 1) throw new Error('the first attempt fails')
      return
    case 'fail-always':
      throw new Error('every attempt fails')
    case 'fatal-until-mended': {
      const rows = await send('select id from mended where id = $1', [id])
      if (rows.length === 0) throw new FatalError('not mended yet')
      return
    }
    case 'stall':
      await reached('stall')
      await send('insert into afterwards (id) values ($1)', [id])
      return
    case 'break-connection':
      await send('select pg_terminate_backend(pg_backend_pid())')
      return
    case 'fill-disk':
      await send('select fill_disk()')
      return
    case 'throw-type-error':
      if (attempt === 1) throw new TypeError('undefined has no properties')
      return
    case 'throw-unretriable':
      if (attempt === 1) throw Object.assign(new Error('not again'), { retriable: false })
      return
    case 'throw-undefined':
      // User code may reject with anything.
      if (attempt === 1) await Promise.reject(undefined)
      return
    case 'fail-reply-once':
      // The handler does nothing of it.
      return
    case 'kill-decoder':
      // The order does not get here.
      return
    case 'never-end':
      if (attempt === 1) await new Promise(() => undefined)
      return
    default:
      return deed satisfies never
  }
}
