import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { IMAGES } from '../../packages/testing/src/servers/run/images.ts'
import { EXAMPLES } from '../examples/servers.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

interface Manifest {
  readonly name: string
  readonly description: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

interface Compose {
  readonly services: Readonly<
    Record<string, { readonly image: string; readonly ports: readonly string[] }>
  >
}

const images: Readonly<Record<string, string>> = IMAGES
const names = readdirSync(join(root, 'examples'))
const ours = /^(onceward$|@onceward\/)/

test('every example runs in the tests and is in the README of create-onceward', () => {
  expect(Object.keys(EXAMPLES).toSorted()).toEqual(names.toSorted())
  const readme = read('packages/create-onceward/README.md')
  const rows = [...readme.matchAll(/^\| `([a-z-]+)` +\| (.*?) +\|$/gm)]
  expect(rows.map(([, name = '']) => name).toSorted()).toEqual(names.toSorted())
  for (const [, name = '', description = ''] of rows) {
    const manifest: Manifest = JSON.parse(read(`examples/${name}/package.json`))
    expect(manifest.description.toLowerCase(), name).toBe(description.toLowerCase())
  }
})

describe.each(names)('%s', (name) => {
  const manifest: Manifest = JSON.parse(read(`examples/${name}/package.json`))
  const compose: Compose = parse(read(`examples/${name}/compose.yaml`), { strict: true })
  const settings = read(`examples/${name}/src/settings.ts`)

  test('names onceward without a version, which create-onceward writes', () => {
    const all = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })
    const versions = all.filter(([dependency]) => ours.test(dependency))
    expect(versions.length).toBeGreaterThan(0)
    expect(new Set(versions.map(([, version]) => version))).toEqual(new Set(['latest']))
    expect(manifest.name).toBe(name)
  })

  test('has the images of the tests, and reads their ports by default', () => {
    for (const [service, { image, ports }] of Object.entries(compose.services)) {
      const published = ports.map((port) => port.split(':').slice(0, 2).join(':'))
      expect(published, service).toEqual([expect.stringMatching(/^127\.0\.0\.1:\d+$/)])
      if (!(service in images)) continue
      expect(image, service).toBe(images[service])
      expect(settings, service).toContain(published[0])
    }
  })

  test('has a README of one screen that links nothing by a relative path', () => {
    const readme = read(`examples/${name}/README.md`)
    expect(readme.split('\n').length).toBeLessThan(50)
    expect(readme).not.toMatch(/\]\((?!https:)/)
  })
})
