import { afterEach, describe, expect, test, vi } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { seededRandom } from '../fixtures/random.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import type { AloneLock, Release } from '../model/runtime.ts'
import { createAloneLock, processAloneLock } from './alone-lock.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

async function taken(wait: Promise<Release | undefined>): Promise<Release> {
  const release = await wait
  if (release === undefined) throw new Error('the lock was not granted')
  return release
}

test('shared runs are concurrent, and an exclusive run waits for all of them', async () => {
  const lock = createAloneLock()
  const one = await taken(lock.shared())
  const two = await taken(lock.shared())
  let isAlone = false
  const alone = taken(lock.exclusive()).then((release) => {
    isAlone = true
    return release
  })
  one()
  await turn()
  expect(isAlone).toBe(false)
  two()
  const release = await alone
  expect(isAlone).toBe(true)
  release()
})

test('the lock is fair: a shared run waits behind an earlier exclusive waiter', async () => {
  const lock = createAloneLock()
  const order: string[] = []
  const first = await taken(lock.shared())
  const exclusive = taken(lock.exclusive()).then((release) => {
    order.push('exclusive')
    release()
  })
  const late = taken(lock.shared()).then((release) => {
    order.push('shared')
    release()
  })
  expect(lock.tryShared()).toBe(undefined)
  first()
  await Promise.all([exclusive, late])
  expect(order).toEqual(['exclusive', 'shared'])
})

test('a second release has no effect', async () => {
  const lock = createAloneLock()
  const one = await taken(lock.shared())
  await lock.shared()
  one()
  one()
  let isAlone = false
  void lock.exclusive().then(() => {
    isAlone = true
  })
  await turn()
  expect(isAlone).toBe(false)
})

test('a wait ends at its limit or when it is stopped, and the runs behind it start', async () => {
  const lock = createAloneLock()
  const { advance, runtime, ...clock } = clockOf()
  await lock.shared()
  const limited = lock.exclusive({ limit: { runtime, ms: 2_000 } })
  const behind = lock.shared()
  advance(2_000)
  expect(await limited).toBe(undefined)
  await taken(behind)
  let stop: (() => void) | undefined
  const stopped = lock.exclusive({
    stop: (onStop) => {
      stop = onStop
      return () => undefined
    },
  })
  stop?.()
  expect(await stopped).toBe(undefined)
  expect(lock.tryShared()).toBeTypeOf('function')
  expect(clock.timers()).toBe(0)
})

function clockOf() {
  const clock = new Clock()
  const advance = (ms: number): void => clock.advance(ms)
  return { runtime: clock.runtime, advance, timers: () => clock.timers }
}

/** What one random history of the lock has shown. */
async function history(seed: number): Promise<string | undefined> {
  const random = seededRandom(seed)
  const lock = createAloneLock()
  const { advance, runtime } = clockOf()
  const held = new Map<Release, { readonly mode: string; readonly root: object }>()
  let granted = 0
  const ask = async (inside?: Release): Promise<void> => {
    const mode = random() < 0.4 ? 'exclusive' : 'shared'
    const limit = { runtime, ms: 1 + Math.floor(random() * 5) }
    const outer = inside === undefined ? undefined : held.get(inside)
    const wait = (): Promise<Release | undefined> => lock[mode]({ limit })
    const release = await (inside === undefined ? wait() : lock.runInside(inside, wait))
    if (release === undefined) return
    granted += 1
    held.set(release, outer ?? { mode, root: {} })
  }
  const check = (): string | undefined => {
    const roots = new Map([...held.values()].map(({ mode, root }) => [root, mode]))
    const isBroken = roots.size > 1 && [...roots.values()].includes('exclusive')
    return isBroken ? `seed ${seed}: an exclusive run is not alone` : undefined
  }
  for (let step = 0; step < 60; step += 1) {
    const releases = [...held.keys()]
    const one = releases[Math.floor(random() * releases.length)]
    const what = random()
    if (what < 0.4) void ask()
    else if (what < 0.55) void ask(one)
    else if (what < 0.85 && one !== undefined) {
      held.delete(one)
      one()
    } else advance(1)
    await turn()
    const broken = check()
    if (broken !== undefined) return broken
  }
  for (const release of held.keys()) release()
  advance(10)
  await turn()
  for (const release of held.keys()) release()
  if (granted === 0) return `seed ${seed}: nothing was granted`
  return (await lock.exclusive()) === undefined ? `seed ${seed}: the lock is never free` : undefined
}

test('in random histories an exclusive run is alone, nested runs never wait, and the lock becomes free', async () => {
  const seeds = Array.from({ length: 300 }, (_, seed) => seed)
  const broken = (await Promise.all(seeds.map(history))).filter((what) => what !== undefined)
  expect(broken).toEqual([])
})

describe('the lock of the process', () => {
  const name = Symbol.for('onceward.alone')
  const before = Object.getOwnPropertyDescriptor(globalThis, name)
  afterEach(() => {
    if (before !== undefined) Object.defineProperty(globalThis, name, before)
  })

  test('is shared by all guards', () => {
    expect(processAloneLock()).toBe(processAloneLock())
  })

  test('is shared by two copies of onceward', async () => {
    vi.resetModules()
    const copy = await import('./alone-lock.ts')
    expect(copy.createAloneLock).not.toBe(createAloneLock)
    expect(copy.processAloneLock()).toBe(processAloneLock())
  })

  const throws = (): never => {
    throw new Error('odd')
  }
  const lock: AloneLock = createAloneLock()
  const ODD: readonly (readonly [string, PropertyDescriptor])[] = [
    ['null', { value: null }],
    ['a number', { value: 1 }],
    ['an empty object', { value: {} }],
    ['a lock of an earlier version', { value: { shared: throws, exclusive: throws } }],
    ['a lock of a later version', { value: { ...methodsOf(lock), version: 2 } }],
    ['a lock without a method', { value: { ...methodsOf(lock), runInside: undefined } }],
    ['a function with the methods of a lock', { value: Object.assign(throws, methodsOf(lock)) }],
    ['a getter of null', { get: () => null, set: () => undefined }],
    ['a proxy that throws', { value: new Proxy({}, { get: throws, has: throws }) }],
    ['a getter that throws', { get: throws, set: throws }],
    ['a setter that throws', { get: () => undefined, set: throws }],
  ]

  test.each(ODD)(
    'that another version left as %s is replaced by an own one, with a warning',
    async (_, odd) => {
      Object.defineProperty(globalThis, name, { configurable: true, ...odd })
      const warnings: string[] = []
      const logger = {
        ...silent,
        warn: (_: object, message: string) => void warnings.push(message),
      }
      const options = { consumer: 'billing', inbox: memoryInbox(), logger }
      const guard = createGuard(options, () => undefined)
      expect(await guard.process(toDelivery(1))).toEqual({ kind: 'ack', by: 'processed' })
      await guard.close()
      const isEmpty = odd.value === null
      expect(warnings).toEqual(isEmpty ? [] : [expect.stringContaining('use one version')])
    },
  )

  test.each<[string, object]>([
    ['a number', { found: 'number' }],
    ['a getter of null', { found: 'object' }],
    ['a getter that throws', { err: expect.objectContaining({ message: 'odd' }) }],
  ])('that is %s is named in the warning, and nobody has to hear it', (odd, fields) => {
    const descriptor = ODD.find(([what]) => what === odd)?.[1]
    Object.defineProperty(globalThis, name, { configurable: true, ...descriptor })
    const warnings: object[] = []
    const own = processAloneLock({ warn: (found: object) => void warnings.push(found) })
    expect(warnings).toEqual([fields])
    expect(processAloneLock()).toBe(own)
  })
})

function methodsOf(lock: AloneLock): AloneLock {
  return {
    version: 1,
    tryShared: () => lock.tryShared(),
    shared: (wait) => lock.shared(wait),
    exclusive: (wait) => lock.exclusive(wait),
    runInside: (release, task) => lock.runInside(release, task),
    isInside: () => lock.isInside(),
  }
}
