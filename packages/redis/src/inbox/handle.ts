import { type Json, type OncewardError, RetryableError } from '@onceward/core'
import { toJsonText } from '@onceward/core/ports'
import type { CallInbox } from './calls.ts'
import type { InboxKeys } from './keys.ts'

/** A value as Redis stores it. Numbers are written as text. */
export type RedisValue = string | number | Uint8Array

/**
 * The writes of a handler. They are collected here and applied together with the done mark when the handler has returned, or
 * not at all. None of them answers a value: read with your own client before you write, and `watch` what you have read.
 *
 * A write that does not fit when the handler returns (another type, a sum beyond 64 bits, NaN) fails the attempt, and
 * nothing is applied.
 */
export interface RedisTransaction {
  /** Replaces the value, whatever its type. A time to live that the key had is gone. */
  set(key: string, value: RedisValue): void
  del(key: string): void
  /** @param by - A whole number of 64 bits, may be negative. */
  incrBy(key: string, by: number | bigint): void
  hSet(key: string, fields: Readonly<Record<string, RedisValue>>): void
  /** @param by - A whole number of 64 bits, may be negative. */
  hIncrBy(key: string, field: string, by: number | bigint): void
  zAdd(key: string, score: number, member: RedisValue): void
  zIncrBy(key: string, by: number, member: RedisValue): void
  sAdd(key: string, ...members: RedisValue[]): void
  lPush(key: string, ...values: RedisValue[]): void
  /** Appends an entry under the next id. */
  xAdd(key: string, fields: Readonly<Record<string, RedisValue>>): void
  /**
   * Needs a server with JSON documents (Redis 8, or the module).
   *
   * @param path - `$` for the whole document; another path needs a document that is there already.
   */
  jsonSet(key: string, path: string, value: Json): void
  /** @param ms - Milliseconds from the commit on. */
  expire(key: string, ms: number): void
  /**
   * Refuses the commit if the value changes between this call and the commit; the handler then runs again. Await it before
   * you read the key. Its cost grows with the size of the value.
   *
   * Your client does not see the writes of this transaction before its commit. So an event of `transaction: 'batch'` or of a
   * batch handler that watches a key which this transaction has written already runs again in a transaction of its own.
   */
  watch(key: string): Promise<void>
}

export interface Write {
  readonly command: string
  readonly key: string
  readonly args: readonly (string | Buffer)[]
}

/** Lua passes at most 8,000 values to a command. */
const MOST_VALUES = 1_000
const LEAST_INTEGER = -(2n ** 63n)
const LARGEST_INTEGER = 2n ** 63n - 1n
/** 100 years. */
const LONGEST_MS = 3_155_760_000_000

/** Collects the writes of one transaction. `tx` refuses once it is over. */
export class CollectedWrites {
  readonly tx: RedisTransaction
  readonly writes: Write[] = []
  readonly watched: Map<string, string> = new Map()
  /** Why nothing of this may be applied, whatever the handler makes of the error that it got. */
  unfit: RetryableError | undefined
  readonly #keys: InboxKeys
  readonly #call: CallInbox
  readonly #isShared: boolean
  #over: (() => Error) | undefined

  constructor({ call, hasJson, isShared, keys }: CollectorParts) {
    this.#keys = keys
    this.#call = call
    this.#isShared = isShared
    this.tx = transactionOf({
      hasJson,
      add: (name, key, args) => this.#add(name, key, args),
      watch: (key) => this.#watch(key),
    })
  }

  /** From now on `tx` throws this. The first reason counts. */
  end(reason: () => OncewardError): void {
    this.#over ??= reason
  }

  #add(name: keyof typeof COMMANDS, key: string, args: readonly RedisValue[]): void {
    this.#demandOpen()
    this.#demandKey(name, key)
    this.writes.push({
      command: COMMANDS[name],
      key,
      args: args.map((each) => bytesOf(name, each)),
    })
  }

  async #watch(key: string): Promise<void> {
    this.#demandOpen()
    this.#demandKey('watch', key)
    // The value that the handler would read is older than what an event before it decided.
    if (this.#isShared && this.writes.some((write) => write.key === key)) {
      this.unfit ??= refused('watch', WRITTEN, 'It runs again by itself.')
      throw this.unfit
    }
    const [digest] = await this.#call({ script: 'digest', keys: [key], args: [] })
    this.#demandOpen()
    // The value of the first watch counts: what was read after it may be older than a second one.
    if (!this.watched.has(key)) this.watched.set(key, String(digest))
  }

  #demandOpen(): void {
    if (this.#over !== undefined) throw this.#over()
  }

  #demandKey(name: string, key: string): void {
    if (typeof key !== 'string' || key === '') {
      throw refused(name, 'the key is not a text, or empty', 'Give the name of a key.')
    }
    const { hashTag, prefix } = this.#keys
    if (!this.#keys.isInSlot(key)) {
      const remedy = `Begin its name with the hash tag: \`{${hashTag}}…\`.`
      throw refused(name, 'the key is outside of the slot of this inbox', remedy)
    }
    if (key.startsWith(prefix)) {
      throw refused(name, 'the key belongs to onceward', `Use names without \`${prefix}\`.`)
    }
  }
}

const WRITTEN = 'this transaction, which several events share, has written the key already'

interface CollectorParts {
  readonly keys: InboxKeys
  readonly call: CallInbox
  /** Several events are in the transaction. */
  readonly isShared: boolean
  readonly hasJson: boolean
}

const COMMANDS = {
  set: 'SET',
  del: 'DEL',
  incrBy: 'INCRBY',
  hSet: 'HSET',
  hIncrBy: 'HINCRBY',
  zAdd: 'ZADD',
  zIncrBy: 'ZINCRBY',
  sAdd: 'SADD',
  lPush: 'LPUSH',
  xAdd: 'XADD',
  jsonSet: 'JSON.SET',
  expire: 'PEXPIRE',
} as const satisfies Readonly<Record<Exclude<keyof RedisTransaction, 'watch'>, string>>

interface Collector {
  readonly hasJson: boolean
  readonly add: (name: keyof typeof COMMANDS, key: string, args: readonly RedisValue[]) => void
  readonly watch: (key: string) => Promise<void>
}

function transactionOf({ add, hasJson, watch }: Collector): RedisTransaction {
  const addMany = (name: keyof typeof COMMANDS, key: string, all: readonly RedisValue[]): void => {
    if (all.length === 0) throw refused(name, 'it got nothing to write', 'Give at least one value.')
    for (let at = 0; at < all.length; at += MOST_VALUES) {
      add(name, key, all.slice(at, at + MOST_VALUES))
    }
  }
  return {
    set: (key, value) => add('set', key, [value]),
    del: (key) => add('del', key, []),
    incrBy: (key, by) => add('incrBy', key, [wholeNumber('incrBy', by)]),
    hSet: (key, fields) => addMany('hSet', key, Object.entries(fields).flat()),
    hIncrBy: (key, field, by) => add('hIncrBy', key, [field, wholeNumber('hIncrBy', by)]),
    zAdd: (key, score, member) => add('zAdd', key, [scoreText('zAdd', score), member]),
    zIncrBy: (key, by, member) => add('zIncrBy', key, [scoreText('zIncrBy', by), member]),
    sAdd: (key, ...members) => addMany('sAdd', key, members),
    lPush: (key, ...values) => addMany('lPush', key, values),
    xAdd: (key, fields) => {
      const entry = Object.entries(fields).flat()
      if (entry.length === 0 || entry.length > MOST_VALUES) {
        const what = `it got ${entry.length / 2} fields`
        throw refused('xAdd', what, `Give 1 to ${MOST_VALUES / 2}.`)
      }
      add('xAdd', key, ['*', ...entry])
    },
    jsonSet: (key, path, value) => {
      if (!hasJson) {
        const remedy = 'Use `set` with JSON text, or a server with JSON.'
        throw refused('jsonSet', 'the server has no JSON.SET', remedy)
      }
      add('jsonSet', key, [path, toJsonText(value)])
    },
    expire: (key, ms) => {
      if (!Number.isInteger(ms) || ms < 1 || ms > LONGEST_MS) {
        throw refused('expire', `it got ${String(ms)}`, 'Give whole milliseconds, at least 1.')
      }
      add('expire', key, [ms])
    },
    watch,
  }
}

function bytesOf(name: string, value: RedisValue): string | Buffer {
  if (typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value)
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  const remedy = 'Convert it first, for example with JSON.stringify.'
  throw refused(name, 'a value is no text, finite number or bytes', remedy)
}

function wholeNumber(name: string, by: number | bigint): string {
  const isWhole = typeof by === 'bigint' || Number.isSafeInteger(by)
  if (isWhole && BigInt(by) >= LEAST_INTEGER && BigInt(by) <= LARGEST_INTEGER) return String(by)
  throw refused(name, `got ${String(by)}`, 'Give a safe integer, or a bigint of 64 bits.')
}

function scoreText(name: string, score: number): string {
  if (typeof score === 'number' && !Number.isNaN(score)) {
    if (Number.isFinite(score)) return String(score)
    return score > 0 ? 'inf' : '-inf'
  }
  throw refused(name, 'the score is not a number', 'Give a number.')
}

/** An error of the handler: its attempt has failed. */
function refused(name: string, what: string, remedy: string): RetryableError {
  return new RetryableError(`tx.${name} was refused: ${what}. ${remedy}`)
}
