// Puts the examples of the repository into dist, without what running them leaves there.
import { cpSync, rmSync } from 'node:fs'

const LEFT_BEHIND = /\/(node_modules|dist|generated|package-lock\.json)$/

rmSync('dist/examples', { recursive: true, force: true })
cpSync('../../examples', 'dist/examples', {
  recursive: true,
  filter: (path) => !LEFT_BEHIND.test(path.replaceAll('\\', '/')),
})
