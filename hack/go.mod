module github.com/squall-chaos/squall/hack

go 1.26.0
