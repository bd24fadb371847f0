import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ProofError } from './errors.ts'
import type { ProveOptions } from './options.ts'
import { OTHER_POINTS, POINT_TITLES, type Point, TRANSACTION_POINTS } from './points.ts'
import { blowFile, type Named, type TakenBlow } from './protocol.ts'
import { Quiet } from './quiet.ts'
import type { Stage } from './stage.ts'
import type { Struck } from './stories.ts'

const WORKERS = 3
const FREEZE_MS = 75_000
const LOOK_MS = 15
/** A point that is not reached twice while all work is done is not seen on the wire of this consumer. */
const MISSES = 2
/** The queue may be longer than a batch: a blow is due while the work of the batches before it is in hand. */
const AHEAD = 60

export type PlayOptions = ProveOptions & Stage

/** Sends the messages, strikes workers as planned, and waits until nothing is left to do. */
export class Play {
  readonly struck: Struck[] = []
  /** What a worker had written last when messages were left. */
  stuckLines = ''
  readonly #options: PlayOptions
  readonly #quiet: Quiet
  readonly #misses = new Map<Point, number>()
  #frozen: Promise<void> | undefined
  #next = 0
  #ids: ReadonlyMap<string, number> | undefined

  constructor(options: PlayOptions) {
    this.#options = options
    this.#quiet = new Quiet(options)
  }

  /** The points that were due and never reached. */
  get unseen(): readonly Point[] {
    return [...this.#misses.keys()].filter(
      (point) => !this.struck.some((each) => each.point === point),
    )
  }

  /** Messages that are neither done nor dead, after a time in which nothing has happened. */
  get left(): number {
    return this.#quiet.left
  }

  async run(): Promise<void> {
    const { crew, onProgress, plan, workers = WORKERS } = this.#options
    onProgress?.(`starting ${workers} workers`)
    await crew.start(workers)
    for (const [at, batch] of plan.batches.entries()) {
      const planned = plan.blows[at]
      const point = planned === undefined ? undefined : this.#reachable(planned)
      if (point === undefined) {
        await this.#send(batch)
        continue
      }
      const number = this.#arm(point)
      await this.#send(batch)
      await this.#strike(number, point)
      onProgress?.(`${at + 1} of ${plan.blows.length}: ${this.#told(point)}`)
    }
    await this.#frozen
    onProgress?.('waiting until everything is done')
    await this.#quiet.whenDone()
    if (this.left > 0) this.stuckLines = crew.lastLines
    await crew.drain()
    this.#check()
  }

  /** In place of a point that this consumer does not show, one that every consumer has. */
  #reachable(planned: Point): Point {
    if (!this.#isHidden(planned)) return planned
    if (!this.#misses.has(planned)) this.#misses.set(planned, 0)
    return OTHER_POINTS[this.#next % OTHER_POINTS.length] ?? planned
  }

  /** Not seen in two blows: where no transaction is seen at all, two of any of its points. */
  #isHidden(planned: Point): boolean {
    const alike = TRANSACTION_POINTS.includes(planned) ? TRANSACTION_POINTS : [planned]
    if (this.struck.some(({ point }) => point === planned)) return false
    const missed = (point: Point): number => this.#misses.get(point) ?? 0
    if (missed(planned) >= MISSES) return true
    if (this.struck.some(({ point }) => alike.includes(point))) return false
    return alike.reduce((sum, point) => sum + missed(point), 0) >= MISSES
  }

  #arm(point: Point): number {
    this.#next += 1
    this.#options.crew.arm({ number: this.#next, point })
    return this.#next
  }

  #told(point: Point): string {
    const isStruck = this.struck.at(-1)?.point === point
    return isStruck ? POINT_TITLES[point] : `not reached: ${POINT_TITLES[point]}`
  }

  /** Not all at once: the last blows find work too. */
  async #send(batch: readonly number[]): Promise<void> {
    const { messages, place } = this.#options
    await place.send(batch.flatMap((event) => messages[event - 1] ?? []))
    while ((await place.waiting()) > AHEAD) {
      this.#check()
      await pause(LOOK_MS * 4)
    }
  }

  /** Until a worker has taken the blow, or all work is done without that. */
  async #strike(number: number, point: Point): Promise<void> {
    const file = join(this.#options.folder, blowFile(number))
    const done = this.#quiet.looks()
    let looks = 0
    while (!existsSync(file)) {
      this.#check()
      looks += 1
      if (looks % 10 === 0 && (await done.isDone()) && !existsSync(file)) {
        this.#misses.set(point, (this.#misses.get(point) ?? 0) + 1)
        return this.#options.crew.arm(undefined)
      }
      await pause(LOOK_MS)
    }
    const taken = await readBlow(file)
    this.#options.crew.arm(undefined)
    const [hit, beside] = await Promise.all(
      [taken.hit, taken.beside].map((each) => this.#named(each)),
    )
    this.struck.push({ point, hit: hit ?? [], beside: beside ?? [] })
    if (point !== 'frozen') this.#options.crew.expectKill()
    else this.#freeze(taken.pid, hit ?? [])
  }

  async #named({ events, ids }: Named): Promise<readonly number[]> {
    this.#ids ??= this.#options.identities.byId(await this.#options.database.consumers())
    return [...new Set([...events, ...ids.flatMap((id) => this.#ids?.get(id) ?? [])])]
  }

  /** The others take the events of the frozen worker over, and then it goes on. */
  #freeze(pid: number, hit: readonly number[]): void {
    const before = this.#frozen
    this.#frozen = (async () => {
      await before
      await this.#quiet.whenTakenOver(hit, this.#options.freezeMs ?? FREEZE_MS)
      this.#options.crew.wake(pid)
    })()
    // Awaited at the end.
    this.#frozen.catch(() => undefined)
  }

  #check(): void {
    const { crew, signal } = this.#options
    signal?.throwIfAborted()
    if (crew.failure !== undefined) throw crew.failure
  }
}

async function readBlow(file: string): Promise<TakenBlow> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const text = await readFile(file, 'utf8')
    // The worker creates the file before it writes it.
    if (text.endsWith('}')) return JSON.parse(text) as TakenBlow
    await pause(5)
  }
  throw new ProofError('A worker has begun to die and has not said where. Run the proof again.')
}
