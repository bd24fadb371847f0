import { endsWithin, track } from '../concurrency/timeout.ts'
import type { DoneMark, WriteMarks } from '../model/lease-store.ts'
import type { Runtime } from '../model/runtime.ts'

/** Marks are written so often, ms: later ones are written together, which costs the store a tenth. */
const EVERY_MS = 100
/** Or as soon as there are so many. */
const MOST = 4_096
/** Longest wait for the last marks, ms. */
const LAST_MS = 2_000

interface Batch {
  readonly write: WriteMarks
  readonly rememberMs: number
  readonly marks: DoneMark[]
}

/** Writes done marks behind the commits of their events. A mark that is not written costs a look at the inbox. */
export class MarkWriter {
  readonly #runtime: Runtime
  readonly #writing = new Set<Promise<unknown>>()
  #batches: Batch[] = []
  #count = 0
  #cancel: (() => void) | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** @param write - Of the history that was known before the transaction began. */
  add(mark: DoneMark, write: WriteMarks, rememberMs: number): void {
    let batch = this.#batches.find((one) => one.write === write && one.rememberMs === rememberMs)
    if (batch === undefined) {
      batch = { write, rememberMs, marks: [] }
      this.#batches.push(batch)
    }
    batch.marks.push(mark)
    this.#count += 1
    if (this.#count >= MOST) this.flush()
    else this.#cancel ??= this.#runtime.setTimer(() => this.flush(), EVERY_MS, { keepAlive: false })
  }

  flush(): void {
    this.#cancel?.()
    this.#cancel = undefined
    const batches = this.#batches
    this.#batches = []
    this.#count = 0
    for (const { marks, rememberMs, write } of batches) {
      void track(
        this.#writing,
        write(marks, rememberMs).catch(() => undefined),
      )
    }
  }

  /** Writes what is left. Never rejects. */
  async drain(): Promise<void> {
    this.flush()
    await endsWithin(this.#runtime, Promise.all(this.#writing), LAST_MS)
  }
}
