import type { EventId, Json } from '../model/brands.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import type { Runtime } from '../model/runtime.ts'
import { readHex } from '../support/hex.ts'
import { fromJsonText, toJsonText } from '../support/json-text.ts'

/** Bounds memory: about a megabyte of events, and their results. */
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
 * Each id has two places, side by side, and the older of their events makes room for the next. Nothing but numbers is kept
 * of an event without a result, so that the garbage collector never looks at them.
 */
export class DoneMemory {
  readonly #parts: DoneMemoryParts
  readonly #pairs: number
  readonly #ids: Int32Array
  readonly #fingerprints: BigInt64Array
  /** When the event is answered no more, on the monotonic clock. 0: only a hint that it is done. */
  readonly #untilMs: Float64Array
  /** By place. */
  readonly #results = new Map<number, string>()
  #characters = 0
  #name: string | undefined
  /** On the monotonic clock, taken before the read began. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #triedAtMs = Number.NEGATIVE_INFINITY
  #isReading = false

  constructor(parts: DoneMemoryParts, places: number = PLACES) {
    this.#parts = parts
    this.#pairs = Math.max(1, Math.floor(places / 2))
    this.#ids = new Int32Array(this.#pairs * 2 * WORDS)
    this.#fingerprints = new BigInt64Array(this.#pairs * 2)
    this.#untilMs = new Float64Array(this.#pairs * 2)
  }

  /** The name of the history that was read last, however long ago: one that has ended since is never read again. */
  get history(): string | undefined {
    return this.#name
  }

  /** Whether the event was seen done. A hint for speed, and no answer. */
  has(id: EventId): boolean {
    return this.#find(id) !== NOWHERE
  }

  /** The answer to a copy of the event with the same payload, if there is one that can be relied on. */
  recall({ fingerprint, id }: IdentifiedEvent): Pick<SeenDone, 'result'> | undefined {
    const place = this.#find(id)
    if (place === NOWHERE) return undefined
    const nowMs = this.#parts.runtime.monotonic()
    const ageMs = nowMs - this.#readAtMs
    if (ageMs >= REREAD_MS) void this.#read(nowMs, nowMs)
    if (ageMs > STALE_MS || nowMs >= (this.#untilMs[place] as number)) return undefined
    if (this.#fingerprints[place] !== fingerprint) return undefined
    const text = this.#results.get(place)
    return { result: text === undefined ? undefined : (fromJsonText(text) as Json) }
  }

  add({ fingerprint, id }: IdentifiedEvent, seen: SeenDone): void {
    // Later events are remembered under this name. For an answer it is read again.
    if (this.#name === undefined) void this.#read(this.#parts.runtime.monotonic())
    const known = this.#find(id)
    const place = (SOUGHT.getUint32(0) % this.#pairs) * 2
    if (known !== place) this.#makeRoom(place)
    for (let word = 0; word < WORDS; word++) {
      this.#ids[place * WORDS + word] = SOUGHT.getInt32(word * 4)
    }
    this.#fingerprints[place] = fingerprint
    if (this.#results.size > 0) this.#keepResult(place, undefined)
    this.#untilMs[place] = this.#untilOf(place, seen)
  }

  /** Moves the newer event of two to the place of the older one. */
  #makeRoom(newer: number): void {
    const older = newer + 1
    this.#ids.copyWithin(older * WORDS, newer * WORDS, older * WORDS)
    this.#fingerprints[older] = this.#fingerprints[newer] as bigint
    this.#untilMs[older] = this.#untilMs[newer] as number
    if (this.#results.size > 0) this.#keepResult(older, this.#results.get(newer))
  }

  #keepResult(place: number, text: string | undefined): void {
    this.#characters += (text?.length ?? 0) - (this.#results.get(place)?.length ?? 0)
    if (text === undefined) this.#results.delete(place)
    else this.#results.set(place, text)
  }

  #untilOf(place: number, { ageMs = Number.POSITIVE_INFINITY, history, result }: SeenDone): number {
    const { dedupWindowMs, runtime } = this.#parts
    const partMs = dedupWindowMs / PART_OF_WINDOW
    // The inbox forgets the event at the end of its window, and this process must have forgotten it before.
    if (history === undefined || history !== this.#name || ageMs > partMs) return 0
    const untilMs = runtime.monotonic() + Math.min(KEPT_MS, partMs)
    if (result === undefined) return untilMs
    const text = toJsonText(result)
    const room = Math.min(LONGEST_RESULT, MOST_RESULT_CHARACTERS - this.#characters)
    if (text.length > room) return 0
    this.#keepResult(place, text)
    return untilMs
  }

  /** The place of the id, which is in `SOUGHT` then. */
  #find(id: EventId): number {
    readHex(id, SOUGHT)
    const first = SOUGHT.getInt32(0)
    const newer = (SOUGHT.getUint32(0) % this.#pairs) * 2
    for (let place = newer; place < newer + 2; place++) {
      // Most places hold another id, and most of these differ in their first words.
      if (this.#ids[place * WORDS] === first && this.#isAt(place)) return place
    }
    return NOWHERE
  }

  #isAt(place: number): boolean {
    for (let word = 1; word < WORDS; word++) {
      if (this.#ids[place * WORDS + word] !== SOUGHT.getInt32(word * 4)) return false
    }
    return true
  }

  /** Never rejects. */
  async #read(nowMs: number, readAtMs: number = Number.NEGATIVE_INFINITY): Promise<void> {
    if (this.#isReading || nowMs - this.#triedAtMs < RETRY_MS) return
    this.#isReading = true
    this.#triedAtMs = nowMs
    try {
      const name = await this.#parts.identity()
      if (name === '') return
      // An event that was done in another history may not be done in this one.
      if (name !== this.#name) this.#untilMs.fill(0)
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

const NOWHERE = -1

/** An id is a UUID: so many words of 32 bits. */
const WORDS = 4
/** The id that is looked for. */
const SOUGHT = new DataView(new ArrayBuffer(WORDS * 4))
