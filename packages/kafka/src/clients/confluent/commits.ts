import type { Position } from '../port.ts'
import { confluentError } from './errors.ts'
import type { Callback, RdPartition } from './rdkafka.ts'

interface Waiting {
  readonly key: string
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Commits that the broker has confirmed. The callback of `commitCb` says only that librdkafka has taken them; what became of
 * them comes by `offset_commit_cb`, which names the offsets.
 */
export class Commits {
  readonly #send: (positions: readonly RdPartition[], done: Callback) => void
  #waiting: readonly Waiting[] = []

  constructor(send: (positions: readonly RdPartition[], done: Callback) => void) {
    this.#send = send
  }

  /** One request for each topic: librdkafka reports an error only if all partitions of a request have one. */
  async send(positions: readonly Position[]): Promise<void> {
    const topics = Map.groupBy(positions, ({ topic }) => topic)
    await Promise.all([...topics.values()].map((own) => this.#sendOne(own)))
  }

  answered(error: unknown, positions: readonly RdPartition[]): void {
    const key = keyOf(positions)
    const at = this.#waiting.findIndex((each) => each.key === key)
    const found = this.#waiting[at]
    this.#waiting = this.#waiting.toSpliced(at, found === undefined ? 0 : 1)
    if (error) found?.reject(confluentError(error))
    else found?.resolve()
  }

  #sendOne(own: readonly Position[]): Promise<void> {
    const positions = own.map(({ topic, partition, offset }) => ({
      ...{ topic, partition, offset: Number(offset) },
    }))
    return new Promise((resolve, reject) => {
      const waiting = { key: keyOf(positions), resolve, reject }
      this.#waiting = [...this.#waiting, waiting]
      this.#send(positions, (error) => {
        if (!error) return
        this.#waiting = this.#waiting.filter((each) => each !== waiting)
        reject(confluentError(error))
      })
    })
  }
}

const keyOf = (positions: readonly RdPartition[]): string =>
  positions
    .map(({ topic, partition, offset }) => `${topic}/${partition}@${offset}`)
    .sort()
    .join()
