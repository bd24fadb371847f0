import { randomUUID } from 'node:crypto'
import type { DeadLetterReason, Delivery, Json } from '@onceward/core'
import { isError, knownTrouble, type Publication, type Troubled } from '@onceward/core/adapter'
import {
  type DeadLetter,
  type DeadLetterRef,
  type EventId,
  type EventKey,
  type Fingerprint,
  fromJsonText,
  type IdentifiedEvent,
  type Known,
  type OwnerToken,
} from '@onceward/core/ports'

/** What is kept of an event that had trouble. Times are milliseconds on the clock of Redis. */
export interface Trouble extends Troubled, TroubleDetails {}

/** Beyond what the table of attempts decides by. */
export interface TroubleDetails {
  readonly consumer: string
  readonly id: string
  readonly key: string
  readonly tenant?: string | undefined
  /** In decimal digits: JSON has no bigint. */
  readonly fingerprint: string
  readonly delivery: StoredDelivery
  readonly error?: string | undefined
  readonly firstFailedAtMs: number
  readonly lastFailedAtMs: number
}

/** What is kept of a refused message. */
export interface Refused extends Publication {
  readonly kind: 'refused'
  readonly consumer: string
  readonly id: string
  readonly key?: string | undefined
  readonly delivery: StoredDelivery
  readonly reason: DeadLetterReason
  readonly error?: string | undefined
  readonly firstFailedAtMs: number
  readonly lastFailedAtMs: number
  readonly parked: boolean
}

export interface Done {
  readonly kind: 'done'
  readonly fingerprint: string
  readonly atMs: number
  readonly result: string
}

export type Stored = Trouble | Refused | Done | { readonly kind: 'absent' }

/** What was read: the record, and the line that says whether it has changed since. */
export interface Reading {
  readonly stored: Stored
  readonly head: string
  readonly isLocked: boolean
  /** By a transaction that changes the event, if it commits. */
  readonly isChanging: boolean
}

type StoredDelivery = Omit<Delivery, 'body' | 'envelope' | 'producedAt' | 'raw'> & {
  readonly body: string
  readonly envelope?: string | undefined
  readonly producedAt?: number | undefined
}

const LETTERS = { running: 'r', waiting: 'w', dead: 'x', refused: 'f' } as const

/** How the value of a counted event begins. */
export const headOfRun = (token: OwnerToken): string => `r${token} `

/** One line that differs for each change, and the record. */
export function toText(record: Trouble | Refused): string {
  const token = record.kind === 'running' ? record.token : '-'
  return `${LETTERS[record.kind]}${token} ${randomUUID()}\n${JSON.stringify(record)}`
}

const DONE = /^d(-?\d+) (\d+) (.*)$/s

export function readValue([value, locked]: readonly unknown[]): Reading {
  const text = String(value)
  const locks = { isLocked: Number(locked) !== 0, isChanging: Number(locked) === 1 }
  if (text === '') return { stored: { kind: 'absent' }, head: '', ...locks }
  const done = DONE.exec(text)
  if (done !== null) {
    const [, fingerprint = '', atMs, result = ''] = done
    return {
      stored: { kind: 'done', fingerprint, atMs: Number(atMs), result },
      head: text,
      ...locks,
    }
  }
  const end = text.indexOf('\n')
  return { stored: JSON.parse(text.slice(end + 1)) as Stored, head: text.slice(0, end), ...locks }
}

export const fingerprintOf = (text: string): Fingerprint => BigInt(text) as Fingerprint

/** The state as the guard sees it. */
export function knownOf(stored: Stored, nowMs: number): Known {
  if (stored.kind === 'absent' || stored.kind === 'refused') return { kind: 'absent' }
  const fingerprint = fingerprintOf(stored.fingerprint)
  if (stored.kind !== 'done') return { ...knownTrouble(stored, nowMs), fingerprint }
  const result = stored.result === '' ? undefined : (fromJsonText(stored.result) as Json)
  return { kind: 'done', fingerprint, result, ageMs: nowMs - stored.atMs }
}

export function storedDelivery(delivery: Delivery): StoredDelivery {
  const { body, envelope, headers, producedAt, source } = delivery
  const { contentType, contentEncoding, item, messageId, orderingKey, sealed } = delivery
  return {
    ...{ item, headers, source, contentType, contentEncoding, messageId, orderingKey, sealed },
    body: Buffer.from(body).toString('base64'),
    envelope: envelope && Buffer.from(envelope).toString('base64'),
    producedAt: producedAt?.getTime(),
  }
}

export function deliveryOf(stored: StoredDelivery): Delivery {
  const { body, envelope, producedAt, ...rest } = stored
  return {
    ...rest,
    body: bytesOf(body),
    ...(envelope === undefined ? {} : { envelope: bytesOf(envelope) }),
    ...(producedAt === undefined ? {} : { producedAt: new Date(producedAt) }),
  }
}

/** An array of its own: a Buffer may be a part of the pool. */
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'))

export function identityOf({
  fingerprint,
  id,
  key,
  tenant,
}: Trouble): Omit<IdentifiedEvent, 'delivery'> {
  const named = tenant === undefined ? {} : { tenant }
  return {
    ...{ id: id as EventId, key: key as EventKey, ...named },
    fingerprint: fingerprintOf(fingerprint),
  }
}

export function letterOf(record: Trouble | Refused, ref: DeadLetterRef): DeadLetter {
  return {
    ...{ ref, consumer: record.consumer, key: record.key },
    reason: record.reason ?? 'attempts-spent',
    error: record.error,
    attempts: record.kind === 'refused' ? 0 : record.attempt,
    firstFailedAt: new Date(record.firstFailedAtMs),
    lastFailedAt: new Date(record.lastFailedAtMs),
    delivery: deliveryOf(record.delivery),
  }
}

/** Most characters that are kept of an error. */
const MOST_ERROR_TEXT = 8_192

export function errorText(error: unknown): string | undefined {
  if (error === undefined) return undefined
  const text = isError(error) ? (error.stack ?? `${error.name}: ${error.message}`) : String(error)
  return text.slice(0, MOST_ERROR_TEXT).replaceAll('\0', '\u2400').toWellFormed()
}
