import type { Pause } from '../model/guard-port.ts'
import type { PauseStore } from '../model/inbox.ts'
import type { MemoryTables } from './tables.ts'

interface PauseRow {
  readonly pause: Pause
  readonly untilMs: number
}

/** The pauses of all consumers of one memory inbox. */
export class MemoryPauses {
  readonly #tables: MemoryTables
  readonly #rows = new Map<string, PauseRow>()

  constructor(tables: MemoryTables) {
    this.#tables = tables
  }

  operate(consumer: string, pause: Omit<Pause, 'source'> | undefined): void {
    if (pause === undefined) {
      this.#rows.delete(consumer)
      return
    }
    const untilMs = this.#tables.nowMs() + (pause.forMs ?? Number.POSITIVE_INFINITY)
    this.#rows.set(consumer, { pause: { ...pause, source: 'operator' }, untilMs })
  }

  of(consumer: string): PauseStore {
    return {
      read: async () => this.#read(consumer),
      write: async (pause) => {
        const { forMs = Number.POSITIVE_INFINITY } = pause
        const untilMs = this.#tables.nowMs() + forMs
        const before = this.#rows.get(consumer)
        if (this.#read(consumer) !== undefined && Number(before?.untilMs) >= untilMs) return
        this.#rows.set(consumer, { pause, untilMs })
      },
      end: async () => {
        this.#rows.delete(consumer)
      },
    }
  }

  #read(consumer: string): Pause | undefined {
    const row = this.#rows.get(consumer)
    const leftMs = Number(row?.untilMs) - this.#tables.nowMs()
    if (row === undefined || leftMs <= 0) return undefined
    return { ...row.pause, forMs: Number.isFinite(leftMs) ? leftMs : undefined }
  }
}
