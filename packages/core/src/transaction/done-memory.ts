import type { EventId, Fingerprint, Json } from '../model/brands.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import type { Runtime } from '../model/runtime.ts'
import { fromJsonText, toJsonText } from '../support/json-text.ts'

/** Bounds memory: about six megabytes of events, and their results. */
const PLACES = 32_768
const MOST_RESULT_CHARACTERS = 8_388_608
/** A longer result is left to the inbox. */
const LONGEST_RESULT = 16_384

/**
 * Longest time for which an event is answered from memory, ms, and the longest part of its window. Whoever removes rows
 * behind the back of the database, as a restore without triggers does, has to stop the consumers for so long.
 */
const KEPT_MS = 60_000
const PART_OF_WINDOW = 3
/** The name of the history is read again after this, and not believed after the other, ms. */
const REREAD_MS = 1_000
const STALE_MS = 2_000
/** Shortest time between two tries to read it. */
const RETRY_MS = 5_000

/** What the inbox has confirmed about an event: this process has committed it, or has read that it is done. */
export interface SeenDone {
  /** The name of the history that was known before the transaction or the read. */
  readonly history: string | undefined
  readonly result: Json | undefined
  /** How long ago the effect was committed. Undefined: the inbox did not say. */
  readonly ageMs: number | undefined
}

interface Known {
  readonly id: EventId
  readonly fingerprint: Fingerprint
  /** Undefined: only a hint that the event is done. */
  readonly history: string | undefined
  readonly untilMs: number
  readonly text: string | undefined
}

export interface DoneMemoryParts {
  /** Reads the name of the inbox's history. */
  readonly identity: () => Promise<string>
  readonly runtime: Pick<Runtime, 'monotonic'>
  readonly dedupWindowMs: number
}

/**
 * Events that this process has seen done: the last ten thousand or so, each with its whole id. A copy of one is answered
 * without the inbox, for a minute, and only while the history of the inbox is known to be the one that has the commit.
 * The name of the history is read once after the first event, and again only when copies come: a consumer without copies
 * pays nothing for it.
 *
 * Each id has two places, and the older of their events makes room for the next. A map would keep them all, but each event
 * would pay for the growth of the map and for its misses of the processor's cache.
 */
export class DoneMemory {
  readonly #parts: DoneMemoryParts
  readonly #pairs: number
  readonly #newer: (Known | undefined)[]
  readonly #older: (Known | undefined)[]
  #characters = 0
  #name: string | undefined
  /** On the monotonic clock, taken before the read began. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #triedAtMs = Number.NEGATIVE_INFINITY
  #isReading = false

  constructor(parts: DoneMemoryParts, places: number = PLACES) {
    this.#parts = parts
    this.#pairs = Math.max(1, Math.floor(places / 2))
    this.#newer = new Array<Known | undefined>(this.#pairs).fill(undefined)
    this.#older = new Array<Known | undefined>(this.#pairs).fill(undefined)
  }

  /** The name of the history that was read last, however long ago: one that has ended since is never read again. */
  get history(): string | undefined {
    return this.#name
  }

  /** Whether the event was seen done. A hint for speed, and no answer. */
  has(id: EventId): boolean {
    return this.#find(id) !== undefined
  }

  /** The answer to a copy of the event with the same payload, if there is one that can be relied on. */
  recall({ fingerprint, id }: IdentifiedEvent): Pick<SeenDone, 'result'> | undefined {
    const known = this.#find(id)
    if (known === undefined) return undefined
    const nowMs = this.#parts.runtime.monotonic()
    const ageMs = nowMs - this.#readAtMs
    if (ageMs >= REREAD_MS) void this.#read(nowMs, nowMs)
    if (known.history === undefined || known.history !== this.#name || ageMs > STALE_MS) {
      return undefined
    }
    if (nowMs >= known.untilMs || known.fingerprint !== fingerprint) return undefined
    const { text } = known
    return { result: text === undefined ? undefined : (fromJsonText(text) as Json) }
  }

  add({ fingerprint, id }: IdentifiedEvent, seen: SeenDone): void {
    // Later events are remembered under this name. For an answer it is read again.
    if (this.#name === undefined) void this.#read(this.#parts.runtime.monotonic())
    const place = placeOf(id, this.#pairs)
    const newer = this.#newer[place]
    if (newer?.id === id) this.#characters -= newer.text?.length ?? 0
    else {
      this.#characters -= this.#older[place]?.text?.length ?? 0
      this.#older[place] = newer
    }
    const known = this.#toKnown(id, fingerprint, seen)
    this.#characters += known.text?.length ?? 0
    this.#newer[place] = known
  }

  #toKnown(
    id: EventId,
    fingerprint: Fingerprint,
    { ageMs = Number.POSITIVE_INFINITY, history, result }: SeenDone,
  ): Known {
    const { dedupWindowMs, runtime } = this.#parts
    const partMs = dedupWindowMs / PART_OF_WINDOW
    const hint = { id, fingerprint, history: undefined, untilMs: 0, text: undefined }
    // The inbox forgets the event at the end of its window, and this process must have forgotten it before.
    if (history === undefined || ageMs > partMs) return hint
    const untilMs = runtime.monotonic() + Math.min(KEPT_MS, partMs)
    if (result === undefined) return { id, fingerprint, history, untilMs, text: undefined }
    const text = toJsonText(result)
    const room = Math.min(LONGEST_RESULT, MOST_RESULT_CHARACTERS - this.#characters)
    return text.length > room ? hint : { id, fingerprint, history, untilMs, text }
  }

  #find(id: EventId): Known | undefined {
    const place = placeOf(id, this.#pairs)
    const newer = this.#newer[place]
    if (newer?.id === id) return newer
    const older = this.#older[place]
    return older?.id === id ? older : undefined
  }

  /** Never rejects. */
  async #read(nowMs: number, readAtMs: number = Number.NEGATIVE_INFINITY): Promise<void> {
    if (this.#isReading || nowMs - this.#triedAtMs < RETRY_MS) return
    this.#isReading = true
    this.#triedAtMs = nowMs
    try {
      const name = await this.#parts.identity()
      if (name === '') return
      this.#name = name
      this.#readAtMs = readAtMs
      this.#triedAtMs = Number.NEGATIVE_INFINITY
    } catch {
      // Copies are looked up in the inbox.
    } finally {
      this.#isReading = false
    }
  }
}

/** Ids are hashes in hex digits, so five of them are enough. */
function placeOf(id: EventId, places: number): number {
  let sum = 0
  for (let at = 0; at < 5; at++) sum = (sum * 31 + id.charCodeAt(at)) | 0
  return Math.abs(sum) % places
}
