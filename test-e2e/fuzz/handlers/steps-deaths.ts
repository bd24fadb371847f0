import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import type { PoolClient } from 'pg'
import type { Playing, Step } from './playing.ts'

const steps: Record<string, Step> = {}
const then: Step['then'] = 'own'
const step = (name: string, play: Step['play'], of: Step['of'] = 'mortal'): void => {
  steps[name] = { then, of, play }
}
const never = (): Promise<never> => new Promise(() => undefined)
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Nothing of the process runs after these. */
const AT_ONCE: Readonly<Record<string, () => void>> = {
  'exit 0': () => process.exit(0),
  'exit 1': () => process.exit(1),
  'exit 3': () => process.exit(3),
  'exit 255': () => process.exit(255),
  SIGKILL: () => process.kill(process.pid, 'SIGKILL'),
  SIGTERM: () => process.kill(process.pid, 'SIGTERM'),
  abort: () => process.abort(),
  'out of memory': fillMemory,
}

const raise = (): never => {
  throw new Error('the process dies of this')
}

/** Errors that nobody handles. The process dies of them in this turn of the event loop or in the next ones. */
const UNHANDLED: Readonly<Record<string, () => void>> = {
  'a timer throws': () => void setTimeout(raise, 0),
  'an immediate throws': () => void setImmediate(raise),
  'a microtask throws': () => queueMicrotask(raise),
  'nextTick throws': () => process.nextTick(raise),
  'a listener throws': () => {
    const emitter = new EventEmitter().on('order', raise)
    setImmediate(() => emitter.emit('order'))
  },
  'an error event has no listener': () =>
    void setImmediate(() => new EventEmitter().emit('error', new Error('nobody listens'))),
  'a stream fails': () => {
    const stream = new Readable({ read: () => undefined })
    stream.destroy(new Error('nobody listens'))
  },
  'a rejection is not handled': () => void Promise.reject(new Error('nobody handles this')),
  'a rejection without a reason': () => void Promise.reject(undefined),
}

/** The process has a small heap. */
function fillMemory(): void {
  const filled: number[][] = []
  for (;;) filled.push(Array.from({ length: 100_000 }, () => filled.length))
}

function dieAtOnce({ dying, fact }: Playing, way: string): Promise<never> {
  fact.doomed = 'its process died'
  dying({ way, isLate: false })
  AT_ONCE[way]?.()
  return never()
}

for (const way of Object.keys(AT_ONCE)) {
  step(`dies: ${way}`, (playing) => dieAtOnce(playing, way))
  // The handler of the other consumer has written its effect, and has not returned.
  for (const which of ['other consumer', 'other pool'] as const) {
    step(`dies in a nested run over the ${which}: ${way}`, (playing) =>
      playing.nest(which, () => dieAtOnce(playing, way)),
    )
  }
  step(`dies beside a nested run: ${way}`, async (playing) => {
    let isInside: (() => void) | undefined
    const inside = new Promise<void>((resolve) => {
      isInside = resolve
    })
    const nesting = playing.nest('other pool', () => {
      isInside?.()
      return never()
    })
    await Promise.race([inside, nesting])
    await dieAtOnce(playing, way)
  })
  step(`dies when it is settled: ${way}`, async ({ dying, whenSettled }) => {
    whenSettled(() => {
      dying({ way, isLate: true, isSettled: true })
      AT_ONCE[way]?.()
    })
  })
}

for (const [way, leave] of Object.entries(UNHANDLED)) {
  step(`dies: ${way}`, async ({ dying, fact }) => {
    fact.doomed = 'its process died'
    dying({ way, isLate: false })
    leave()
    await never()
  })
  step(`goes on while ${way}`, async ({ dying }) => {
    dying({ way, isLate: true })
    leave()
  })
}

/** What a handler has left behind when it returned or threw. */
const LATER: Readonly<Record<string, () => Promise<unknown>>> = {
  'in the next turn': turn,
  'some turns later': async () => {
    for (let n = 0; n < 8; n += 1) await turn()
  },
  '4 ms later': () => new Promise((resolve) => setTimeout(resolve, 4)),
  '40 ms later': () => new Promise((resolve) => setTimeout(resolve, 40)),
}
const WAYS = { ...AT_ONCE, ...UNHANDLED }

for (const [when, wait] of Object.entries(LATER)) {
  for (const [way, act] of Object.entries(WAYS)) {
    step(`dies ${when}: ${way}`, async ({ dying, fact }) => {
      const later = async (): Promise<void> => {
        while (!fact.isOver) await turn()
        await wait()
        dying({ way, isLate: true })
        act()
      }
      void later()
    })
  }
}

step(
  'dies: a callback of a query throws',
  async ({ context, dying, fact }) => {
    fact.doomed = 'its process died'
    const tx = context.tx as PoolClient
    tx.query('select 1', () => {
      dying({ way: 'a callback of a query throws', isLate: false })
      raise()
    })
    await never()
  },
  'mortal pg',
)

/** What a parent sees of a process that died so: its exit code or its signal. */
export function traceOf(way: string): number | NodeJS.Signals {
  if (way.startsWith('exit ')) return Number(way.slice('exit '.length))
  if (way === 'SIGKILL' || way === 'SIGTERM') return way
  return way === 'abort' || way === 'out of memory' ? 'SIGABRT' : 1
}

/** What handlers do that kills their process. */
export const DEATHS: Readonly<Record<string, Step>> = steps
