import { expect, test } from 'vitest'
import { ConfigurationError } from '../model/errors.ts'
import { homeRegion } from './home-region.ts'

const THREE = ['eu-west-1', 'us-east-1', 'ap-south-1'] as const
const TWO = THREE.slice(0, 2)

// Also in docs/choosing.md. They must never change: a key would get a second home during an update.
test.each([
  ['account-1', 'ap-south-1', 'eu-west-1'],
  ['account-2', 'eu-west-1', 'eu-west-1'],
  ['account-3', 'ap-south-1', 'us-east-1'],
  ['order-17', 'eu-west-1', 'eu-west-1'],
  ['', 'us-east-1', 'us-east-1'],
  ['日本語-7', 'eu-west-1', 'eu-west-1'],
  ['a'.repeat(2_000), 'ap-south-1', 'us-east-1'],
])('the home of %s is %s of three regions and %s of two', (key, ofThree, ofTwo) => {
  expect(homeRegion(key, THREE)).toBe(ofThree)
  expect(homeRegion(key, THREE.toReversed())).toBe(ofThree)
  expect(homeRegion(key, TWO)).toBe(ofTwo)
})

test('only the keys of a removed region move, and the regions have equal shares', () => {
  const keys = Array.from({ length: 3_000 }, (_, n) => `key-${n}`)
  const share = Object.groupBy(keys, (key) => homeRegion(key, THREE))
  for (const region of THREE) expect(share[region]?.length).toBeGreaterThan(900)
  for (const key of keys) {
    const before = homeRegion(key, THREE)
    if (before !== 'ap-south-1') expect(homeRegion(key, TWO)).toBe(before)
  }
})

test('fields of other lengths are other homes', () => {
  const differing = Array.from({ length: 50 }, (_, n) => `${n}`).filter(
    (n) => homeRegion(`b${n}`, ['a', 'c']) !== homeRegion(n, ['ab', 'cb']).slice(0, 1),
  )
  expect(differing.length).toBeGreaterThan(0)
})

test.each<[string, unknown, unknown, RegExp]>([
  ['an empty list', 'k', [], /at least one region/],
  ['no list', 'k', undefined, /at least one region/],
  ['an empty name', 'k', ['eu', ''], /not empty/],
  ['a name twice', 'k', ['eu', 'us', 'eu'], /twice/],
  ['a key that is a number', 7, ['eu'], /String\(key\)/],
])('%s is refused', (_, key, regions, message) => {
  const call = () => homeRegion(key as string, regions as string[])
  expect(call).toThrow(ConfigurationError)
  expect(call).toThrow(message)
})
