import type { Socket } from 'node:net'

/** One direction of a proxied connection. */
export interface Pipe {
  hold(): void
  release(): void
}

/** Rules of one direction, asked for every piece of data. */
export interface PipeRules {
  /** Whether the piece is passed on. */
  judge(chunk: Buffer): boolean
  latencyMs(): number
}

interface Waiting {
  readonly dueAt: number
  /** Undefined stands for the end of the stream. */
  readonly chunk: Buffer | undefined
}

/** Copies `from` to `to` in order, each piece as late as the rules say. */
export function pipe(from: Socket, to: Socket, rules: PipeRules): Pipe {
  const queue: Waiting[] = []
  let held = false
  let full = false
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    timer = undefined
    while (!held && queue.length > 0) {
      const [next] = queue as [Waiting]
      const waitMs = next.dueAt - performance.now()
      if (waitMs > 0) {
        timer ??= setTimeout(flush, waitMs)
        return
      }
      queue.shift()
      forward(next.chunk)
    }
    if (!held && !full) from.resume()
  }
  const forward = (chunk: Buffer | undefined): void => {
    if (to.destroyed) return
    if (chunk === undefined) return void to.end()
    if (to.write(chunk)) return
    full = true
    from.pause()
    to.once('drain', () => {
      full = false
      if (!held) from.resume()
    })
  }
  const add = (chunk: Buffer | undefined): void => {
    queue.push({ dueAt: performance.now() + rules.latencyMs(), chunk })
    if (timer === undefined) flush()
  }
  from.on('data', (chunk: Buffer) => {
    if (rules.judge(chunk)) add(chunk)
  })
  from.on('end', () => add(undefined))
  from.on('close', () => {
    if (from.errored) to.destroy()
  })
  return {
    hold: () => {
      held = true
      from.pause()
    },
    release: () => {
      held = false
      if (timer === undefined) flush()
    },
  }
}
