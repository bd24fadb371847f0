import { expect, test } from 'vitest'
import { memoryLeases } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { sharedLeaseStore } from './shared-lease-store.ts'

test('an outage is logged once when it begins and once when it ends', async () => {
  const lines: string[] = []
  const say = (level: string) => (_: object, message: string) => lines.push(`${level}: ${message}`)
  const logger = {
    debug: say('debug'),
    info: say('info'),
    warn: say('warn'),
    error: say('error'),
  }
  const store = memoryLeases()
  let isAway = false
  const leases = sharedLeaseStore(
    {
      ...store,
      claim: (claims) =>
        isAway ? Promise.reject(new StoreUnavailableError('away')) : store.claim(claims),
    },
    logger,
  )
  await leases.claim([])
  isAway = true
  for (let n = 0; n < 3; n += 1) await leases.claim([]).catch(() => undefined)
  isAway = false
  for (let n = 0; n < 3; n += 1) await leases.claim([])
  expect(lines).toEqual([
    'warn: the lease store does not answer',
    'info: the lease store answers again',
  ])
})
