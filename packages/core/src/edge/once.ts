import type { Delivery } from '../model/delivery.ts'
import {
  CommitUnknownError,
  ConfigurationError,
  ConflictError,
  FatalError,
  InProgressError,
  LeaseLostError,
  OncewardError,
  RetryableError,
  StoreUnavailableError,
} from '../model/errors.ts'
import { type Guard, portOf } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { fromJsonText, toJsonText } from '../support/json-text.ts'
import { refuseUnknownNames } from '../support/wrong-arguments.ts'

/** What {@link once} runs. */
export type OnceCall<Payload> = {
  /** The identity of the run: the handler runs once for each key, among all processes. */
  readonly key: string
  /** Keys are unique per tenant. Default: what the option `tenant` of the guard finds. */
  readonly tenant?: string | undefined
  /** Of a guard with `on`: the name of the handler there. Default: what its option `type` finds in the payload. */
  readonly type?: string | undefined
} & (undefined extends Payload
  ? { readonly payload?: Payload | undefined }
  : { readonly payload: Payload })

const NAMES = { key: true, tenant: true, type: true, payload: true } as const

/**
 * Runs the handler of a guard now, in this process, at most once for each key among all processes: for cron jobs, commands
 * and server actions. Answers what the handler returned, as it is stored. Later calls with the key get the same answer, and
 * the handler does not run.
 *
 * A run that fails leaves nothing behind: no attempt is counted, nothing is retried or dead-lettered, and the key is free
 * again. Whoever calls again runs the handler again. After a crash nobody does, unless somebody calls.
 *
 * @param guard - Made by `createGuard`. Its inbox, deadline, hooks and logger apply; `decode`, `eventKey`, `skip`, `split` and
 * `retry` are for messages of brokers.
 * @param call - The payload is encoded as JSON, and the schema checks it. The same key with another payload is a conflict.
 * @throws {@link InProgressError} after `claimWaitMs`, while another call of the key runs.
 * @throws {@link ConflictError} The key was used with another payload.
 * @throws {@link InvalidPayloadError} The payload does not fit the schema.
 * @throws {@link StoreUnavailableError} | {@link CommitUnknownError} Call again with the same key: it finds what happened.
 * @throws The error that the handler threw.
 *
 * @example
 * ```ts
 * import { createGuard, once } from '@onceward/core'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * const reports = createGuard({ consumer: 'reports', inbox: pgInbox(pool) }, async (_event, { tx }) => {
 *   const { rowCount } = await tx.query('insert into reports select * from open_orders')
 *   return { orders: rowCount }
 * })
 * const { orders } = await once(reports, { key: 'report-2026-11-29' })
 * ```
 */
export async function once<Payload, Result>(
  guard: Guard<Payload, Result>,
  call: OnceCall<NoInfer<Payload>>,
): Promise<Result> {
  refuseUnknownNames('once', call as OnceCall<undefined>, NAMES)
  const { key, tenant, type } = call
  for (const [name, value] of Object.entries({ key, tenant, type })) {
    const isRight = typeof value === 'string' ? value !== '' : value === undefined && name !== 'key'
    if (isRight) continue
    throw new ConfigurationError(
      `Expected \`${name}\` of once to be a text that is not empty, got ${value === '' ? 'an empty one' : typeof value}.`,
    )
  }
  const port = portOf(guard)
  const hooks = { needsResult: true, caller: { key, tenant, type } }
  const [settlement] = await port.run([toDelivery(guard, call.payload)], hooks)
  return answerOf(settlement as Settlement, port.runtime.now()) as Result
}

function toDelivery({ consumer }: Guard, payload: unknown): Delivery {
  return {
    body: Buffer.from(payload === undefined ? '' : jsonOf(payload)),
    headers: {},
    source: { broker: 'once', queue: consumer },
    contentType: 'application/json',
  }
}

function jsonOf(payload: unknown): string {
  try {
    const text = toJsonText(payload) as string | undefined
    if (text !== undefined) return text
  } catch (cause) {
    throw new ConfigurationError('The `payload` of once cannot be written as JSON.', { cause })
  }
  throw new ConfigurationError(`The \`payload\` of once is a ${typeof payload}, which is no JSON.`)
}

function answerOf(settlement: Settlement, nowMs: number): unknown {
  switch (settlement.kind) {
    case 'ack': {
      const { by, result } = settlement
      if (by === 'conflict') throw new ConflictError(CONFLICT)
      // Each caller gets a copy of its own, and the first one sees the same as the others.
      return result === undefined ? undefined : fromJsonText(toJsonText(result))
    }
    case 'defer': {
      const { error, reason, until } = settlement
      if (reason === 'failed') throw error
      if (reason === 'store-down') {
        throw OncewardError.is(error)
          ? error
          : new StoreUnavailableError(STORE_DOWN, { cause: error })
      }
      throw new InProgressError(IN_PROGRESS[reason], { afterMs: Math.max(0, until - nowMs) })
    }
    case 'dead-letter': {
      const { error, reason } = settlement
      const thrown: unknown =
        error ?? new FatalError(`The event of this key is dead (${reason}). ${DEAD}`)
      throw thrown
    }
    case 'abandon':
      throw abandonedError(settlement)
    default:
      return settlement satisfies never
  }
}

function abandonedError({ error, reason }: Extract<Settlement, { kind: 'abandon' }>): unknown {
  const cause = error === undefined ? undefined : { cause: error }
  switch (reason) {
    case 'closing':
      return new RetryableError(CLOSING, cause)
    case 'commit-unknown':
      return new CommitUnknownError(UNKNOWN, cause)
    case 'lease-lost':
    case 'deadline':
      return error ?? new LeaseLostError(UNKNOWN)
    default:
      return reason satisfies never
  }
}

const CONFLICT = 'The key was used before with another payload. Use another key for another call.'
const STORE_DOWN = 'The store does not answer, and nothing ran. Call again with the same key.'
const IN_PROGRESS = {
  'in-progress': 'Another call with this key is running. Call again later for its answer.',
  'not-due':
    'An event with this key failed and waits for its retry. Call again later for its answer.',
}
const DEAD = 'Replay or discard it (`npx onceward dead-letters`), or use another key.'
const CLOSING = 'The guard is closed. Call again with the same key, in another process.'
const UNKNOWN = 'Whether this call had its effect is not known. Call again with the same key.'
