import { readFileSync } from 'node:fs'
import { env } from './env.ts'

// Prints what the import of each entry of our packages throws.
for (const name of env('PACKAGES').split(',')) {
  const { exports } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'))
  for (const entry of Object.keys(exports)) {
    const path = name + entry.slice(1)
    await import(path).then(
      () => console.log(`${path} was imported`),
      (error: Error) => console.log(`${path}: ${error.message}`),
    )
  }
}
