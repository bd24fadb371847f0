import { isError, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type {
  Argument,
  Claimed,
  ClaimedEntry,
  ClaimRequest,
  Field,
  Neighbours,
  Parking,
  StreamApi,
  StreamEntry,
  StreamFacts,
} from '../client.ts'
import { entriesOf } from '../delivery.ts'
import type { Settings } from '../options.ts'
import type { Connection, OwnConnection } from './connection.ts'
import { SCRIPTS, type ScriptName } from './scripts.ts'

const CALL_MS = 10_000
/** A drain must not wait for a Redis that is down. */
const LEAVE_MS = 1_000
/** Added to the wait of a receive: one on a connection that went silent must not wait without end. */
const READ_SLACK_MS = 10_000
/** Lua puts at most 8,000 arguments on its stack. */
const MOST_FIELDS = 3_000
/** Entries that one script settles. A script blocks Redis, and this many take about a millisecond. */
const SCRIPT_ENTRIES = 100

type ApiSettings = Pick<
  Settings,
  'streams' | 'group' | 'consumer' | 'consumerName' | 'claimIdleMs' | 'keepEntries'
>

export function createStreamApi(
  connection: Connection,
  settings: ApiSettings,
  runtime: Runtime,
): StreamApi {
  return new StreamCalls(connection, settings, runtime)
}

interface Run {
  readonly script: ScriptName
  readonly args: readonly Argument[]
  /** Streams besides the one of the group. */
  readonly others?: readonly string[]
  readonly budgetMs?: number
}

class StreamCalls implements StreamApi {
  readonly readable: readonly (readonly string[])[]
  readonly #connection: Connection
  readonly #settings: ApiSettings
  readonly #runtime: Runtime
  readonly #readers = new Map<string, OwnConnection>()

  constructor(connection: Connection, settings: ApiSettings, runtime: Runtime) {
    const { streams } = settings
    this.#connection = connection
    this.#settings = settings
    this.#runtime = runtime
    this.readable = connection.isCluster ? streams.map((stream) => [stream]) : [streams]
  }

  async read(
    names: readonly string[],
    { count, blockMs }: { readonly count: number; readonly blockMs: number },
  ): Promise<readonly StreamEntry[]> {
    const { group, consumerName } = this.#settings
    const [first = ''] = names
    const reader = this.#readers.get(first) ?? this.#connection.duplicate()
    this.#readers.set(first, reader)
    const wait = ['COUNT', String(count), 'BLOCK', String(blockMs)]
    const args = ['XREADGROUP', 'GROUP', group, consumerName, ...wait, 'STREAMS', ...names]
    const reading = reader.call(first, [...args, ...names.map(() => '>')])
    try {
      const reply = await this.#bounded('XREADGROUP', reading, blockMs + READ_SLACK_MS)
      return entriesOf(reply).map((entry) => namedAs(names, entry))
    } catch (error) {
      // The server has answered, so its connection works and is kept.
      if (isServersAnswer(error)) throw error
      this.#readers.delete(first)
      reader.close()
      throw error
    }
  }

  async claim({ stream, count, cursor }: ClaimRequest): Promise<Claimed> {
    const args = [String(this.#settings.claimIdleMs), String(count), cursor]
    const [next, taken, gone] = await this.#run(stream, { script: 'claim', args })
    return {
      cursor: String(next),
      entries: listOf(taken).map((entry): ClaimedEntry => {
        const [id, fields, times] = listOf(entry)
        return { ...entryOf(stream, id, fields), deliveryCount: Number(times) }
      }),
      gone: listOf(gone).map(String),
    }
  }

  renew(stream: string, ids: readonly string[]): Promise<readonly string[]> {
    return this.#runInParts(stream, ids, (args) => ({ script: 'renew', args }))
  }

  ack(stream: string, ids: readonly string[]): Promise<readonly string[]> {
    return this.#runInParts(stream, ids, (part) => ({ script: 'ack', args: [this.#keep, ...part] }))
  }

  giveBack(stream: string, ids: readonly string[]): Promise<readonly string[]> {
    return this.#runInParts(stream, ids, (args) => ({ script: 'giveBack', args }))
  }

  async park(stream: string, { id, afterMs, deliveryCount }: Parking): Promise<boolean> {
    const args = [id, String(Math.max(0, Math.ceil(afterMs))), String(deliveryCount)]
    const lost = await this.#run(stream, { script: 'park', args })
    return lost.length === 0
  }

  async add(
    target: string,
    fields: readonly Field[],
    original?: Pick<StreamEntry, 'stream' | 'id'>,
  ): Promise<void> {
    const flat = fields.flat().map((bytes) => Buffer.from(bytes))
    const isSmall = fields.length <= MOST_FIELDS
    if (original !== undefined && isSmall && (await this.#move(target, flat, original))) return
    await this.#bounded('XADD', this.#connection.call(target, ['XADD', target, '*', ...flat]))
    if (original !== undefined) await this.ack(original.stream, [original.id])
  }

  async ensureGroup(stream: string): Promise<void> {
    await this.#run(stream, { script: 'ensureGroup', args: [] })
  }

  async removeConsumers(stream: string, idleMs: number): Promise<void> {
    await this.#run(stream, { script: 'removeConsumers', args: [String(idleMs)] })
  }

  async facts(stream: string): Promise<StreamFacts> {
    const answer = await this.#run(stream, { script: 'facts', args: [] })
    const [info, found, groups, oldest] = answer
    const asked = this.#connection.call(stream, ['CONFIG', 'GET', 'appendfsync'])
    const fsync = await this.#bounded('CONFIG', asked).then(
      (value) => listOf(value)[1]?.toString(),
      // Managed servers refuse CONFIG.
      () => undefined,
    )
    return {
      info: infoOf(info),
      stream: Array.isArray(found) ? mapOf(found) : undefined,
      groups: listOf(groups).map((each) => mapOf(listOf(each))),
      oldestPending: oldest === null || oldest === undefined ? undefined : String(oldest),
      fsync,
    }
  }

  async neighbours(stream: string): Promise<Neighbours> {
    const { consumer, group } = this.#settings
    const args = [this.#keep, consumer]
    const others = [besideKey('consumers', stream, group)]
    const [groups, consumers, adrift] = await this.#run(stream, {
      ...{ script: 'neighbours', args, others },
    })
    return {
      groups: listOf(groups).map(String),
      consumers: listOf(consumers).map(String),
      adrift: typeof adrift === 'number' ? adrift : undefined,
    }
  }

  async close(): Promise<void> {
    for (const reader of this.#readers.values()) reader.close()
    this.#readers.clear()
    const leaving = this.#settings.streams.map((stream) =>
      this.#run(stream, { script: 'leave', args: [], budgetMs: LEAVE_MS }),
    )
    await Promise.allSettled(leaving)
  }

  get #keep(): string {
    return this.#settings.keepEntries ? '1' : '0'
  }

  /** False: on a cluster the streams are in two slots, which no script can change. */
  async #move(
    target: string,
    fields: readonly Argument[],
    { stream, id }: Pick<StreamEntry, 'stream' | 'id'>,
  ): Promise<boolean> {
    try {
      const args = [this.#keep, id, ...fields]
      await this.#run(stream, { script: 'move', args, others: [target] })
      return true
    } catch (error) {
      if (textOf(error).includes('CROSSSLOT')) return false
      throw error
    }
  }

  async #run(stream: string, run: Run): Promise<readonly unknown[]> {
    const { script, args, others = [], budgetMs } = run
    const { group, consumerName } = this.#settings
    const { sha, source } = SCRIPTS[script]
    const keys = [stream, besideKey('parked', stream, group), ...others]
    const rest = [String(keys.length), ...keys, group, consumerName, ...args]
    const call = (way: string, text: string) => this.#connection.call(stream, [way, text, ...rest])
    const calling = call('EVALSHA', sha).catch((error: unknown) => {
      if (!textOf(error).includes('NOSCRIPT')) throw error
      return call('EVAL', source)
    })
    const answer = await this.#bounded(script, calling, budgetMs)
    if (Array.isArray(answer)) return answer
    throw new Error(`${script} was answered with ${String(answer)}. ${ALONE}`)
  }

  async #runInParts(
    stream: string,
    ids: readonly string[],
    runOf: (ids: readonly string[]) => Run,
  ): Promise<readonly string[]> {
    const parts = Array.from({ length: Math.ceil(ids.length / SCRIPT_ENTRIES) }, (_, index) =>
      ids.slice(index * SCRIPT_ENTRIES, (index + 1) * SCRIPT_ENTRIES),
    )
    const answers = await Promise.all(parts.map((part) => this.#run(stream, runOf(part))))
    return answers.flat().map(String)
  }

  #bounded<T>(call: string, promise: Promise<T>, budgetMs = CALL_MS): Promise<T> {
    return withTimeout(this.#runtime, promise, { call, budgetMs })
  }
}

const ALONE =
  'Give a client on which nothing else opens a transaction (MULTI), and check for a proxy that changes answers.'

/** In the same slot as the stream: what is in braces decides, if anything is. */
function besideKey(what: 'parked' | 'consumers', stream: string, group: string): string {
  const tagged = /^[^{]*\{[^}]+\}/.test(stream) ? stream : `{${stream}}`
  return `${tagged}:onceward:${what}:${group}`
}

const textOf = (error: unknown): string => (isError(error) ? error.message : '')
/** Errors of the server begin with a code. */
const isServersAnswer = (error: unknown): boolean =>
  /^(?:NOGROUP|UNBLOCKED|WRONGTYPE|NOPERM|ERR|LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|BUSY|OOM|MISCONF)\b/.test(
    textOf(error),
  )

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Pairs of a flat list. */
function pairsOf(flat: readonly unknown[]): (readonly [unknown, unknown])[] {
  return Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]])
}

const mapOf = (flat: readonly unknown[]): ReadonlyMap<string, unknown> =>
  new Map(pairsOf(flat).map(([name, value]) => [String(name), textOrOther(value)]))

const textOrOther = (value: unknown): unknown => (Buffer.isBuffer(value) ? String(value) : value)

/** Undefined if the user may not ask. */
function infoOf(info: unknown): ReadonlyMap<string, string> | undefined {
  if (!(Buffer.isBuffer(info) || typeof info === 'string')) return undefined
  const lines = String(info).split(/\r?\n/)
  return new Map(
    lines.map((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, at), line.slice(at + 1)]
    }),
  )
}

/** With a `keyPrefix` of ioredis the server knows a stream under a longer name. */
function namedAs(names: readonly string[], { stream, ...entry }: StreamEntry): StreamEntry {
  const name = names.find((each) => each === stream) ?? names.find((each) => stream.endsWith(each))
  return { ...entry, stream: name ?? stream }
}

const entryOf = (stream: string, id: unknown, fields: unknown): StreamEntry => ({
  stream,
  id: String(id),
  fields: pairsOf(listOf(fields)).map((pair) => pair.map(toBytes) as unknown as Field),
})

const toBytes = (value: unknown): Uint8Array =>
  value instanceof Uint8Array ? value : Buffer.from(String(value))
