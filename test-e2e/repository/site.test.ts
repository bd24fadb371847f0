import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pageOf, SECTIONS } from '../../site/pages.ts'

const root = join(import.meta.dirname, '../..')
const listed = SECTIONS.flatMap(({ pages }) => pages.map(([page]) => `${page}.md`))

test('every document has its place in the sidebar of the site, once', () => {
  const documents = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
  const others = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md']
  const pages = [...others, ...documents.map((name) => `docs/${name}`)].map(pageOf)
  expect(listed.toSorted()).toEqual(pages.toSorted())
})

test('every action that publishes is pinned to a commit', () => {
  for (const name of ['site', 'release']) {
    const text = readFileSync(join(root, `.github/workflows/${name}.yml`), 'utf8')
    const used = [...text.matchAll(/uses: (\S+)/g)].map(([, action = '']) => action)
    expect(used.length).toBeGreaterThan(0)
    expect(used.filter((action) => !/@[0-9a-f]{40}$/.test(action))).toEqual([])
  }
})
