import type { GuardPort, PullSource, ReceiveRoom } from '@onceward/core/adapter'
import type { StreamApi } from './client.ts'
import type { Accept, Received } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { Claims } from './pending.ts'

export interface ReceiverOptions {
  readonly port: Pick<GuardPort, 'runtime' | 'logger'>
  readonly api: Pick<StreamApi, 'readable' | 'read' | 'claim' | 'neighbours' | 'removeConsumers'>
  readonly settings: Settings
  readonly accept: Accept
  /** Creates groups that are gone. */
  readonly restore: () => Promise<void>
}

type Room = ReceiveRoom<Received>

/** A receive waits this long for an entry, so a drain waits at most as long for its end. */
const BLOCK_MS = 1_000
/** Entries of others, and parked ones that are due, are looked for this often. */
const LOOK_MS = 1_000
/** Names without entries are removed after an hour. */
const IDLE_NAME_MS = 3_600_000
const NAMES_MS = 600_000

/**
 * New entries by XREADGROUP on connections of its own, parked and abandoned ones by a look every second, and at once as
 * long as there are more.
 */
export class Receiver implements PullSource<Received> {
  readonly most: number = Number.POSITIVE_INFINITY
  readonly #options: ReceiverOptions
  readonly #claims: Claims
  readonly #reading = new Set<readonly string[]>()
  /** Streams whose last receive brought entries. */
  readonly #busy = new Set<readonly string[]>()
  /** The streams that the next receive and the next look begin with. */
  #turn = 0
  #lookTurn = 0
  #isLooking = false
  /** The last look took all that it had room for. */
  #isBacklog = false
  /** The last room went to a look, and not to a receive. */
  #wasLook = false
  #lookAtMs = 0
  #namesAtMs = 0
  #isGroupMissing = false

  constructor(options: ReceiverOptions) {
    const { api, settings, port } = options
    this.#options = options
    this.#claims = new Claims({ api, settings, runtime: port.runtime, logger: port.logger })
  }

  fill(room: Room): void {
    if (this.#isLookDue(room)) void this.#look(room)
    this.#readAll(room)
  }

  /** On a quiet stream only parked entries can ask. */
  fillOne(room: Room): void {
    const [streams] = this.#options.api.readable
    if (this.#isLookDue(room)) void this.#look(room)
    else if (streams !== undefined) void this.#read(room, streams, 1, false)
  }

  failed(error: unknown): void {
    if (classifyError(error).kind === 'group-missing') this.#isGroupMissing = true
  }

  /**
   * A receive of a quiet stream keeps what it reserves for a second. So beside other streams it asks for one entry and
   * reserves nothing, and beside other streams or a backlog of looks a receive takes half of the room at most.
   */
  #readAll(room: Room): void {
    const { api, settings } = this.#options
    const { readable } = api
    const isShared = readable.length > 1 || this.#isBacklog
    for (const streams of fromTurn(readable, this.#turn)) {
      if (this.#reading.has(streams)) continue
      const { free, worthwhile } = room
      if (free < worthwhile) return
      const max = Math.min(isShared ? Math.ceil(free / 2) : free, settings.batchSize)
      const isProbe = readable.length > 1 && !this.#busy.has(streams)
      const count = isProbe ? 1 : Math.max(1, Math.floor(max / streams.length))
      void this.#read(room, streams, count, isProbe)
      this.#turn = readable.indexOf(streams) + 1
    }
  }

  async #read(
    room: Room,
    streams: readonly string[],
    count: number,
    isProbe: boolean,
  ): Promise<void> {
    this.#reading.add(streams)
    this.#wasLook = false
    const fetch = () => this.#receive(streams, count)
    const sizes = isProbe ? { reserved: 0 } : { reserved: count * streams.length, full: count }
    await room.receive({ ...sizes, fetch })
  }

  async #receive(streams: readonly string[], count: number): Promise<readonly Received[]> {
    const { api, accept } = this.#options
    try {
      if (this.#isGroupMissing) await this.#options.restore()
      this.#isGroupMissing = false
      const entries = await api.read(streams, { count, blockMs: BLOCK_MS })
      if (entries.length > 0) this.#busy.add(streams)
      else this.#busy.delete(streams)
      return accept(entries.map((entry) => ({ ...entry, deliveryCount: 1 })))
    } finally {
      this.#reading.delete(streams)
    }
  }

  #isLookDue(room: Room): boolean {
    const { api, port } = this.#options
    if (this.#isLooking || port.runtime.monotonic() < this.#lookAtMs || room.room < 1) return false
    // Looks that follow each other at once and receives take turns.
    if (!this.#isBacklog || this.#reading.size === api.readable.length) return true
    return !this.#wasLook && room.free >= room.worthwhile
  }

  async #look(room: Room): Promise<void> {
    const { port, settings } = this.#options
    const { runtime } = port
    this.#isLooking = true
    this.#wasLook = true
    this.#lookAtMs = runtime.monotonic() + LOOK_MS * (0.8 + 0.4 * runtime.random())
    this.#lookTurn += 1
    const taken: string[] = []
    for (const stream of fromTurn(settings.streams, this.#lookTurn)) {
      if (taken.includes('failed')) break
      taken.push(await this.#claim(room, stream))
    }
    if (!taken.includes('failed')) this.#isBacklog = taken.includes('all')
    await this.#removeNames(room)
    this.#isLooking = false
    room.pump()
  }

  /** Whether it took all that it had room for. */
  async #claim(room: Room, stream: string): Promise<'all' | 'some' | 'failed'> {
    if (room.room < 1) {
      // There is less room than streams: the next ones are first as soon as there is more.
      this.#lookAtMs = 0
      return 'all'
    }
    // Receives that wait for entries may have reserved all room.
    const free = Math.max(1, this.#isBacklog ? room.free : Math.ceil(room.free / 2))
    const count = Math.min(free, this.#options.settings.batchSize)
    let isAll = false
    const fetch = async (): Promise<readonly Received[]> => {
      const { entries, isMore } = await this.#claims.take(stream, count)
      if (isMore) this.#lookAtMs = 0
      isAll = entries.length >= count
      return this.#options.accept(entries)
    }
    const answer = await room.receive({ reserved: count, fetch })
    if (answer === 'failed') return answer
    return isAll ? 'all' : 'some'
  }

  async #removeNames(room: Room): Promise<void> {
    const { api, port, settings } = this.#options
    const nowMs = port.runtime.monotonic()
    if (nowMs < this.#namesAtMs) return
    this.#namesAtMs = nowMs + NAMES_MS
    const fetch = async (): Promise<readonly Received[]> => {
      for (const stream of settings.streams) await api.removeConsumers(stream, IDLE_NAME_MS)
      return []
    }
    await room.receive({ reserved: 0, fetch })
  }
}

/** All of them, beginning with one after the other. */
function fromTurn<Each>(all: readonly Each[], turn: number): readonly Each[] {
  const first = turn % all.length
  return [...all.slice(first), ...all.slice(0, first)]
}
